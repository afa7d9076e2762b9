// Text of a trace, which is hostile data: control and format characters are written as escapes.

const UNSAFE = /[\p{C}\p{Zl}\p{Zp}]/gu;
const LONGEST = 2000;

/** The text with control, format and separator characters escaped, so that it cannot mislead. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** Printable text of bounded length; what was cut is counted. */
export function shortened(text: string, longest = LONGEST): string {
  if (text.length <= longest) return printable(text);
  const cut = text.length - longest;
  return `${printable(text.slice(0, longest))}\u2026 (${cut.toLocaleString("en-US")} more characters)`;
}

/** A time with its unit, to four digits. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size >= 0.99995e9) return `${digits(ns / 1e9)} s`;
  if (size >= 0.99995e6) return `${digits(ns / 1e6)} ms`;
  if (size >= 0.99995e3) return `${digits(ns / 1e3)} \u00b5s`;
  return `${Number(ns.toPrecision(4))} ns`;
}

function digits(value: number): string {
  const text = value.toPrecision(4);
  return text.includes("e") ? Math.round(value).toLocaleString("en-US") : text;
}

/** A count with separators. */
export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** A share in percent. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 2 : 1)} %`;
}

/** The round step (1, 2 or 5 times a power of ten) that gives at most so many ticks. */
export function tickStep(length: number, most: number): number {
  const rough = length / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((one) => power * one >= rough * (1 - 1e-9)) ?? 10;
  return Math.max(power * factor, 1);
}

/** A time on the axis, in the unit of the tick step, exact to that step. */
export function tickLabel(ns: number, step: number): string {
  const [scale, unit] =
    step >= 1e9
      ? [1e9, "s"]
      : step >= 1e6
        ? [1e6, "ms"]
        : step >= 1e3
          ? [1e3, "\u00b5s"]
          : [1, "ns"];
  // Adding zero turns -0 into 0.
  const value = (ns / (scale as number) + 0).toLocaleString("en-US", { maximumFractionDigits: 3 });
  return `${value} ${unit}`;
}
