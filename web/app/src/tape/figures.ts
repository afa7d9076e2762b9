// Values as people read them, the same digits and units as the command line prints
// (python/assay/model/language/figures.py), thousands apart: an interval decides the digits, a value
// keeps its display unit while it is handy there.

import { grouped, unitText } from "../design/readable";
import { round } from "../design/rounding";
import { fromBase, type UnitData } from "./graph";

const SMALLEST = 0.1;
const LARGEST = 10_000;
/** Ends that are nearer to each other, as parts of the value, differ by rounding only. */
const NOISE = 1e-12;
const LARGE_SUMS: readonly (readonly [number, string])[] = [
  [1e12, "trillion"],
  [1e9, "billion"],
  [1e6, "million"],
];
const WORDS: Readonly<Record<string, string>> = { h: "hour", d: "day", yr: "year", min: "minute" };

export interface Shown {
  /** The value with a currency sign, where it has one. */
  value: string;
  /** What follows the value. */
  unit: string;
  lower: string;
  upper: string;
}

interface Scale {
  unit: UnitData;
  factor: number;
  sign: string;
  suffix: string;
}

/** Print a value in base units for people, with its interval where there is one. */
export function figure(value: number, unit: UnitData, lower?: number, upper?: number): Shown {
  const hasEnds =
    lower !== undefined && upper !== undefined && upper - lower > NOISE * Math.abs(value);
  const scale = scaleOf(value, unit);
  const numbers = (hasEnds ? [value, lower, upper] : [value]).map((n) => convert(scale, n));
  const texts = round(numbers, scale.sign !== "" && scale.factor >= 1).map(grouped);
  const [low, high] = hasEnds ? texts.slice(1) : ["", ""];
  return {
    value: `${scale.sign}${texts[0]}`,
    unit: unitText(scale.suffix),
    lower: low,
    upper: high,
  };
}

/** The value with its unit as one text. */
export function figureText(value: number, unit: UnitData): string {
  const shown = figure(value, unit);
  return `${shown.value}${shown.unit}`;
}

function convert(scale: Scale, value: number): number {
  return fromBase(scale.unit, value) * scale.factor;
}

function scaleOf(value: number, unit: UnitData): Scale {
  if (unit.text === "1") return { unit, factor: 1, sign: "", suffix: "" };
  if (unit.text.split("/")[0] === "USD") return money(value, unit);
  const choices = [unit, ...(unit.choices ?? [])];
  let best = choices[0];
  let least = awkwardness(value, best, unit);
  for (const other of choices.slice(1)) {
    const found = awkwardness(value, other, unit);
    if (found < least) [best, least] = [other, found];
  }
  return { unit: best, factor: 1, sign: "", suffix: ` ${best.text}` };
}

function money(value: number, unit: UnitData): Scale {
  const per = unit.text.includes("/") ? unit.text.slice(unit.text.indexOf("/") + 1) : "";
  if (per === "token") return { unit, factor: 1e6, sign: "$", suffix: " per million tokens" };
  if (per !== "") {
    const names = per
      .replace(/^\(|\)$/g, "")
      .split("*")
      .map((name) => WORDS[name] ?? name);
    const isTime = (name: string) => name === "month" || Object.values(WORDS).includes(name);
    names.sort((one, other) => Number(isTime(one)) - Number(isTime(other)));
    return { unit, factor: 1, sign: "$", suffix: ` per ${names.join("-")}` };
  }
  for (const [size, word] of LARGE_SUMS) {
    if (Math.abs(fromBase(unit, value)) >= size) {
      return { unit, factor: 1 / size, sign: "$", suffix: ` ${word}` };
    }
  }
  return { unit, factor: 1, sign: "$", suffix: "" };
}

/** The order of preference: the own unit while the value is handy in it, then near 1 to 1000. */
function awkwardness(value: number, other: UnitData, own: UnitData): number {
  const size = Math.abs(fromBase(other, value));
  if (other === own && (size === 0 || (SMALLEST <= size && size < LARGEST))) return -1;
  if (!size || !Number.isFinite(size)) return 0;
  return Math.abs(Math.log10(size) - 1.5);
}
