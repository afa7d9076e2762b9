// Numbers with units for people: base units are scaled to the one that suits the size.

export interface Quantity {
  readonly value: number;
  /** A unit of the model in base units: "USD/token", "B/s", "". */
  readonly unit: string;
  readonly lo?: number | null | undefined;
  readonly hi?: number | null | undefined;
}

interface Scale {
  readonly factor: number;
  readonly unit: string;
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

/** Units that take prefixes up, down or both. */
const SCALED: Readonly<Record<string, "up" | "both">> = {
  B: "up",
  FLOP: "up",
  W: "both",
  J: "both",
  Hz: "up",
  V: "both",
  A: "both",
  m: "both",
  g: "both",
  token: "up",
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
  if (unit === "USD/token" && size < 0.1) return { factor: 1e-6, unit: "USD/Mtoken" };
  if (unit === "J/token" && size < 1e-3) return { factor: 1e-3, unit: "mJ/token" };
  const [head = "", ...rest] = unit.split("/");
  const kind = SCALED[head];
  if (!kind) return { factor: 1, unit };
  const found = PREFIXES.find(([one]) => size >= one * 0.9995) ?? PREFIXES.at(-1)!;
  const [factor, prefix] = kind === "up" && found[0] < 1 ? [1, ""] : found;
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
  const { factor, unit } = scaleOf(quantity.value, quantity.unit);
  // What is known to a tenth is not written to four digits.
  const figures = isWide(quantity) ? 3 : 4;
  return { number: digits(quantity.value / factor, figures), unit: unit === "1" ? "" : unit };
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
  return `${digits(lo / factor, 3)} to ${digits(hi / factor, 3)}`;
}

/** A ratio as a signed percentage: "+12.4 %". */
export function shownChange(ratio: number): string {
  const change = 100 * (ratio - 1);
  return `${change >= 0 ? "+" : "-"}${digits(Math.abs(change), 3)} %`;
}
