// Colors by operation, kernel, phase or stream, from the palette that the terminal uses too.

import palette from "../../python/assay/observe/timeline/palette.json";
import type { TextColumn, TimelineData } from "./data";

export type Theme = "light" | "dark";
export type ColorMode = "op" | "kernel" | "phase" | "stream";
export const COLOR_MODES: readonly [ColorMode, string][] = [
  ["op", "operation"],
  ["kernel", "kernel"],
  ["phase", "phase"],
  ["stream", "stream"],
];

interface Family {
  readonly light: readonly string[];
  readonly dark: readonly string[];
  readonly operations: readonly string[];
}

const FAMILIES: Readonly<Record<string, Family>> = palette.families;
const PHASES: Readonly<Record<string, Record<Theme, string>>> = palette.phases;
const NO_PHASE = "no phase";
const PLACES = new Map<string, [string, number]>(
  Object.entries(FAMILIES).flatMap(([family, entry]) =>
    entry.operations.map((one, place): [string, [string, number]] => [one, [family, place]]),
  ),
);

/** The color of an operation or kind; of a fused one, that of its first part that is no norm. */
export function operationColor(label: string, theme: Theme): string {
  const found = label.split("+").map((part) => PLACES.get(part) ?? (["none", 0] as const));
  const [family, place] = found.find(([one]) => one !== "norm" && one !== "none") ?? found[0];
  const shades = FAMILIES[family][theme];
  return shades[place % shades.length];
}

/** The color of a name, by a checksum of its text. */
export function nameColor(name: string, theme: Theme): string {
  const colors = palette.names[theme];
  return colors[crc32(new TextEncoder().encode(name)) % colors.length];
}

export function phaseColor(phase: string | null, theme: Theme): string {
  return (PHASES[phase ?? NO_PHASE] ?? PHASES[NO_PHASE])[theme];
}

/** The same checksum as Python's zlib.crc32. */
export function crc32(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}

/** The labels of spans in a mode of coloring: a code for each row, words for codes. */
export function labelsOf(data: TimelineData, mode: ColorMode): TextColumn {
  if (mode === "kernel") return withDefault(data.name, "(no name)");
  if (mode === "phase") return withDefault(data.phase, NO_PHASE);
  if (mode === "stream") return byLane(data);
  return operations(data);
}

function withDefault(column: TextColumn, word: string): TextColumn {
  const words = [...column.words, word];
  return { codes: column.codes.map((code) => (code < 0 ? words.length - 1 : code)), words };
}

/** The operation, or the kind where there is none; a kernel without one is not mapped. */
function operations(data: TimelineData): TextColumn {
  const words = [...data.op.words];
  const kinds = [...data.kind.words, "unknown"].map((kind) => {
    const word = kind === "kernel" ? "not mapped" : kind;
    const at = words.indexOf(word);
    return at >= 0 ? at : words.push(word) - 1;
  });
  const codes = data.op.codes.map((code, row) => {
    if (code >= 0) return code;
    const kind = data.kind.codes[row];
    return kinds[kind < 0 ? kinds.length - 1 : kind];
  });
  return { codes, words };
}

function byLane(data: TimelineData): TextColumn {
  const codes = new Int32Array(data.rows);
  for (const track of data.tracks) codes.fill(track.lane, track.first, track.end);
  const words = data.description.lanes.map((lane) => `${lane.group}, ${lane.name}`);
  return { codes, words };
}

/** Labels of a mode, and for each the place of its device time among all, from 0. */
export interface Labels extends TextColumn {
  readonly ranks: Int32Array;
}

/** Rank labels by their time on devices. */
export function ranked(data: TimelineData, labels: TextColumn): Labels {
  const times = new Float64Array(labels.words.length);
  for (let row = 0; row < data.rows; row++) {
    if (data.isOnDevice(row)) times[labels.codes[row]] += data.stop[row] - data.start[row];
  }
  const ranks = new Int32Array(labels.words.length);
  [...times.keys()]
    .sort((one, other) => times[other] - times[one] || one - other)
    .forEach((code, rank) => {
      ranks[code] = rank;
    });
  return { ...labels, ranks };
}

/** The color of each label; the kernels and streams with the most time differ from each other. */
export function colorsOf(labels: Labels, mode: ColorMode, theme: Theme): string[] {
  const distinct = palette.names[theme];
  return labels.words.map((word, code) => {
    if (mode === "op") return operationColor(word, theme);
    if (mode === "phase") return phaseColor(word, theme);
    return distinct[labels.ranks[code]] ?? nameColor(word, theme);
  });
}

/** Shades between a background and a color, from faint to full, as pixels of an image. */
export const SHADES = 32;

export function pixelShades(colors: readonly string[], background: string): Uint32Array {
  const table = new Uint32Array(colors.length * (SHADES + 1));
  const [backRed, backGreen, backBlue] = channels(background);
  colors.forEach((color, index) => {
    const [red, green, blue] = channels(color);
    for (let shade = 0; shade <= SHADES; shade++) {
      // What is there at all stays visible, however short.
      const share = shade === 0 ? 0 : 0.16 + (0.84 * shade) / SHADES;
      const mix = (back: number, front: number): number =>
        Math.round(back + (front - back) * share);
      table[index * (SHADES + 1) + shade] =
        0xff000000 | (mix(backBlue, blue) << 16) | (mix(backGreen, green) << 8) | mix(backRed, red);
    }
  });
  return table;
}

export function channels(color: string): [number, number, number] {
  const value = Number.parseInt(color.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Black or white, whichever reads better on a color. */
export function inkOn(color: string): string {
  const [red, green, blue] = channels(color).map((value) => (value / 255) ** 2.2);
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  // Where contrast with black and with white is equal: sqrt(1.05 * 0.05) - 0.05.
  return luminance > 0.179 ? "#14181d" : "#ffffff";
}
