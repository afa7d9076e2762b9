// Values as people read them, the same digits and units as the command line prints
// (python/assay/model/language/figures.py): an interval decides the digits, a value keeps its
// display unit while it is handy there.

import { fromBase, type UnitData } from "./graph";

const SMALLEST = 0.1;
const LARGEST = 10_000;
const DIGITS = 4;
const MOST_WHOLE = 1e7;
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
  const texts = round(numbers, scale.sign !== "" && scale.factor >= 1);
  const [low, high] = hasEnds ? texts.slice(1) : ["", ""];
  return { value: `${scale.sign}${texts[0]}`, unit: scale.suffix, lower: low, upper: high };
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

function round(numbers: number[], isMoney: boolean): string[] {
  const [value, ...ends] = numbers;
  if (!numbers.every(Number.isFinite)) return numbers.map((number) => number.toPrecision(DIGITS));
  if (ends.length === 0) {
    if (Number.isInteger(value) && Math.abs(value) < MOST_WHOLE && !isMoney) return [`${value}`];
    const place = placeOf(value) - (DIGITS - 1);
    if (isMoney && Math.abs(value) >= 1) return [at(value, Math.max(place, -2), false)];
    return [at(value, place, true)];
  }
  const nonzero = numbers.filter((number) => number !== 0).map(Math.abs);
  const nearest = nonzero.length > 0 ? Math.min(...nonzero) : 1;
  // An end far below the width keeps a significant digit, so that it does not become zero.
  const place = Math.min(placeOf(ends[1] - ends[0]) - 1, placeOf(nearest));
  return numbers.map((number) => at(number, place, false));
}

/** The power of ten of the first digit. */
function placeOf(number: number): number {
  return number === 0 ? 0 : Math.floor(Math.log10(Math.abs(number)));
}

/** The number rounded at a decimal place. */
function at(number: number, place: number, strip: boolean): string {
  if (place < -8 || Math.abs(number) >= 1e9) {
    const text = number.toExponential(Math.min(Math.max(placeOf(number) - place, 0), 20));
    const [digits, exponent] = text.split("e");
    return `${strip ? stripped(digits) : digits}e${Number(exponent)}`;
  }
  if (place > 0) return `${Math.round(number / 10 ** place) * 10 ** place}`;
  const text = number.toFixed(-place);
  return strip ? stripped(text) : text;
}

function stripped(text: string): string {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}
