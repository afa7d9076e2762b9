// What the palette lists, and in which order: a kind keeps together, the best of each comes first.

export type Kind = "page" | "scenario" | "run" | "variable" | "document";

export interface Entry {
  readonly kind: Kind;
  readonly title: string;
  readonly about: string;
  readonly address: string;
}

const KINDS: readonly Kind[] = ["page", "variable", "scenario", "run", "document"];

/** 0 for the title itself, then titles that start with the text, words of titles, other matches. */
function rank(entry: Entry, text: string, words: readonly string[]): number | null {
  const title = entry.title.toLowerCase();
  const whole = `${title} ${entry.about.toLowerCase()}`;
  if (!words.every((word) => whole.includes(word))) return null;
  if (title === text) return 0;
  if (title.startsWith(text)) return 1;
  if (words.every((word) => title.includes(word))) return 2;
  return 3;
}

/** The entries that have every word of a text; without a text, what people look for first. */
export function found(entries: readonly Entry[], text: string, most: number): readonly Entry[] {
  const plain = text.trim().toLowerCase();
  const words = plain.split(/\s+/).filter(Boolean);
  const ranked: { readonly entry: Entry; readonly rank: number }[] = [];
  for (const entry of entries) {
    if (!words.length && entry.kind === "variable") continue;
    const place = rank(entry, plain, words);
    if (place !== null) ranked.push({ entry, rank: place });
  }
  const best = new Map<Kind, number>();
  for (const one of ranked) {
    best.set(one.entry.kind, Math.min(best.get(one.entry.kind) ?? 9, one.rank));
  }
  ranked.sort(
    (one, other) =>
      (words.length ? best.get(one.entry.kind)! - best.get(other.entry.kind)! : 0) ||
      KINDS.indexOf(one.entry.kind) - KINDS.indexOf(other.entry.kind) ||
      (words.length
        ? one.rank - other.rank || one.entry.title.length - other.entry.title.length
        : 0),
  );
  return ranked.slice(0, most).map((one) => one.entry);
}

/** The entries with their places; the first of a kind opens a part of the list. */
export function lines(
  entries: readonly Entry[],
): readonly { readonly heading: boolean; readonly entry: Entry; readonly index: number }[] {
  return entries.map((entry, index) => ({
    heading: index > 0 && entries[index - 1]!.kind !== entry.kind,
    entry,
    index,
  }));
}
