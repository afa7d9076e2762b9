// A receipt as the lines of a tree that opens and closes, and two of them side by side.

import type { Line, Receipt } from "./types";

export interface Row {
  /** The names from the total to this line: it tells apart two lines of one variable. */
  readonly path: string;
  readonly depth: number;
  readonly name: string;
  /** The line in the scenario and, where two are compared, in the one before. */
  readonly line: Line | null;
  readonly before: Line | null;
  /** The part of the total that goes through this line, along this path alone. */
  readonly share: number | null;
  readonly inputs: number;
  readonly isOpen: boolean;
  /** Whether the variable is above itself on this path: a simultaneous block. */
  readonly isCircular: boolean;
}

const SEPARATOR = ">";

export function linesByName(receipt: Receipt | null): ReadonlyMap<string, Line> {
  return new Map(receipt?.lines.map((line) => [line.name, line]) ?? []);
}

/** The rows in view, largest shares first where `bySize`, else in the order of the equation. */
export function rowsOf(
  receipt: Receipt,
  before: Receipt | null,
  opened: ReadonlySet<string>,
  bySize: boolean,
): Row[] {
  const now = linesByName(receipt);
  const then = linesByName(before);
  const rows: Row[] = [];
  /** How far a variable moved between the two, as a logarithm. */
  const moved = (name: string): number => {
    const ratio = (now.get(name)?.value ?? 0) / (then.get(name)?.value ?? 0);
    return ratio > 0 && Number.isFinite(ratio) ? Math.abs(Math.log(ratio)) : 0;
  };
  function add(
    name: string,
    path: string,
    depth: number,
    share: number | null,
    above: Set<string>,
  ) {
    const line = now.get(name) ?? null;
    const old = then.get(name) ?? null;
    const inputs = inputsOf(line, old, share, bySize, before ? moved : null);
    const isCircular = above.has(name);
    const isOpen = opened.has(path) && inputs.length > 0 && !isCircular;
    rows.push({
      path,
      depth,
      name,
      line,
      before: old,
      share,
      inputs: isCircular ? 0 : inputs.length,
      isOpen,
      isCircular,
    });
    if (!isOpen) return;
    above.add(name);
    for (const [input, part] of inputs)
      add(input, path + SEPARATOR + input, depth + 1, part, above);
    above.delete(name);
  }
  add(receipt.target, receipt.target, 0, receipt.value ? 1 : null, new Set());
  return rows;
}

function inputsOf(
  line: Line | null,
  before: Line | null,
  share: number | null,
  bySize: boolean,
  moved: ((name: string) => number) | null,
): [string, number | null][] {
  const found = new Map<string, number | null>();
  for (const input of line?.inputs ?? []) {
    found.set(input.name, share === null || input.share === null ? null : share * input.share);
  }
  // What only the scenario before needs has no part in this total.
  for (const input of before?.inputs ?? []) if (!found.has(input.name)) found.set(input.name, null);
  const rows = [...found];
  if (bySize) {
    // Where two scenarios are compared, what carries the difference comes first.
    const size = ([name, part]: [string, number | null]) => {
      const carried = Math.abs(part ?? 0);
      return [carried * (moved?.(name) ?? 0), carried] as const;
    };
    rows.sort((one, other) => {
      const [first, second] = [size(one), size(other)];
      return second[0] - first[0] || second[1] - first[1];
    });
  }
  return rows;
}

/** Paths to open at first: those that carry most of the total, to a depth and a number of rows. */
export function openAtFirst(receipt: Receipt, least: number, depth: number): Set<string> {
  const lines = linesByName(receipt);
  const opened = new Set<string>();
  function open(name: string, path: string, level: number, share: number, above: Set<string>) {
    const line = lines.get(name);
    if (!line || line.inputs.length === 0 || level >= depth || above.has(name)) return;
    opened.add(path);
    above.add(name);
    for (const input of line.inputs) {
      const part = share * (input.share ?? 0);
      if (Math.abs(part) >= least)
        open(input.name, path + SEPARATOR + input.name, level + 1, part, above);
    }
    above.delete(name);
  }
  open(receipt.target, receipt.target, 0, 1, new Set());
  return opened;
}

/** The shortest path from the total to a variable; null where the total does not need it. */
export function pathTo(receipt: Receipt, name: string): string | null {
  const lines = linesByName(receipt);
  const found = new Map([[receipt.target, receipt.target]]);
  const queue = [receipt.target];
  for (let at = 0; at < queue.length && !found.has(name); at++) {
    const here = queue[at]!;
    for (const input of lines.get(here)?.inputs ?? []) {
      if (found.has(input.name)) continue;
      found.set(input.name, found.get(here)! + SEPARATOR + input.name);
      queue.push(input.name);
    }
  }
  return found.get(name) ?? null;
}

/** Every path above a line, itself not included. */
export function pathsAbove(path: string): string[] {
  const names = path.split(SEPARATOR);
  return names.slice(0, -1).map((_, at) => names.slice(0, at + 1).join(SEPARATOR));
}

/** Change of a line between two scenarios: a ratio, or null where there is none. */
export function changeOf(row: Row): number | null {
  const { line, before } = row;
  if (!line || !before || line.value === null || before.value === null) return null;
  if (before.unit !== line.unit || before.value === 0) return null;
  return line.value / before.value;
}
