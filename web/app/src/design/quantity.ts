// Numbers with units for people: base units are scaled to the one that suits the size.

import { grouped, unitText } from "./readable";
import { round } from "./rounding";

export interface Quantity {
  readonly value: number;
  /** A unit of the model in base units: "USD/token", "B/s", "". */
  readonly unit: string;
  readonly lo?: number | null | undefined;
  readonly hi?: number | null | undefined;
  /** A prediction: its interval decides the digits, as it does on the command line. */
  readonly isPredicted?: boolean;
}

interface Scale {
  readonly factor: number;
  readonly unit: string;
  /** What stands before the number. */
  readonly sign?: string;
}

const PREFIXES: readonly (readonly [number, string])[] = [
  [1e18, "E"],
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
  [1e-3, "m"],
  [1e-6, "u"],
  [1e-9, "n"],
];

/** Units that take prefixes up, both up and down, or from a million on. */
const SCALED: Readonly<Record<string, "up" | "both" | "large">> = {
  B: "up",
  FLOP: "up",
  W: "both",
  J: "both",
  Hz: "up",
  V: "both",
  A: "both",
  m: "both",
  g: "both",
  token: "large",
};

const DAY = 86_400;
const TIMES: readonly (readonly [number, string])[] = [
  [365.25 * DAY, "years"],
  [DAY, "days"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "us"],
  [1e-9, "ns"],
];

function scaleOf(value: number, unit: string): Scale {
  const size = Math.abs(value);
  if (!Number.isFinite(size) || size === 0) return { factor: 1, unit };
  if (unit === "s") {
    const [factor, name] = TIMES.find(
      ([one]) => size >= one * 1.9 || (one <= 1 && size >= one),
    ) ?? [1e-9, "ns"];
    return { factor, unit: name };
  }
  // Prices are read per million tokens, and small prices in cents are not read at all.
  if (unit === "USD/token" && size < 0.1) {
    return { factor: 1e-6, unit: "per million tokens", sign: "$" };
  }
  if (unit === "J/token" && size < 1e-3) return { factor: 1e-3, unit: "mJ/token" };
  const [head = "", ...rest] = unit.split("/");
  const kind = SCALED[head];
  if (!kind) return { factor: 1, unit };
  const found = PREFIXES.find(([one]) => size >= one * 0.9995) ?? PREFIXES.at(-1)!;
  const least = kind === "up" ? 1 : kind === "large" ? 1e6 : 0;
  const [factor, prefix] = found[0] < least ? [1, ""] : found;
  return { factor, unit: [prefix + head, ...rest].join("/") };
}

/** Four digits, thousands apart, no exponent where one can be avoided. */
export function digits(value: number, figures = 4): string {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) {
    const [mantissa = "", exponent = ""] = value.toExponential(figures - 1).split("e");
    return `${Number(mantissa)}e${Number(exponent)}`;
  }
  return new Intl.NumberFormat("en-US", {
    maximumSignificantDigits: size >= 10 ** figures ? Math.ceil(Math.log10(size)) : figures,
  }).format(value);
}

export function shownValue(quantity: Quantity): { readonly number: string; readonly unit: string } {
  const { factor, unit, sign = "" } = scaleOf(quantity.value, quantity.unit);
  const [predicted] = texts(quantity) ?? [];
  // What is known to a tenth is not written to four digits.
  const figures = isWide(quantity) ? 3 : 4;
  return {
    number: sign + (predicted ?? digits(quantity.value / factor, figures)),
    unit: unit === "1" ? "" : unitText(unit),
  };
}

function isWide({ value, lo, hi }: Quantity): boolean {
  return typeof lo === "number" && typeof hi === "number" && hi - lo > 0.02 * Math.abs(value);
}

/** The value in one text: "7.63 ms". */
export function shown(quantity: Quantity): string {
  const { number, unit } = shownValue(quantity);
  return unit ? `${number} ${unit}` : number;
}

/** "7.4 to 7.9", in the unit of the value; null where there is no interval. */
export function shownInterval(quantity: Quantity): string | null {
  const { lo, hi } = quantity;
  if (lo === null || lo === undefined || hi === null || hi === undefined || lo === hi) return null;
  const { factor } = scaleOf(quantity.value, quantity.unit);
  const [, low, high] = texts(quantity) ?? ["", digits(lo / factor, 3), digits(hi / factor, 3)];
  return `${low} to ${high}`;
}

/** A predicted value and the ends of its interval; null where it has none. */
function texts({ value, unit, lo, hi, isPredicted }: Quantity): string[] | null {
  if (!isPredicted || typeof lo !== "number" || typeof hi !== "number" || hi <= lo) return null;
  const { factor } = scaleOf(value, unit);
  const isMoney = unit.startsWith("USD");
  return round(
    [value, lo, hi].map((one) => one / factor),
    isMoney,
  ).map(grouped);
}

/** A ratio as a signed percentage: "+12.4 %". */
export function shownChange(ratio: number): string {
  const change = 100 * (ratio - 1);
  return `${change >= 0 ? "+" : "-"}${digits(Math.abs(change), 3)} %`;
}
