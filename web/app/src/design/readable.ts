// The command line prints numbers and units in ASCII; pages set them as people write them.

const WHOLE = /(?<![\d.^])\d{4,}(?![\d]|\.?\d*e)/g;
const MICRO = /(^|[ /(\u00b7*])u(?=(?:s|m|g|J|W|A|V|L|F)\b)/g;
const POWERS: Readonly<Record<string, string>> = { "2": "\u00b2", "3": "\u00b3" };

/** Thousands apart: "31000" as "31,000". */
export function grouped(text: string): string {
  return text.replace(WHOLE, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));
}

/** "token/(s*GPU)" with a dot between factors, "mm^2" with a raised two, "ug" as micrograms. */
export function unitText(unit: string): string {
  return unit
    .replace(MICRO, "$1\u00b5")
    .replace(/\^([23])(?!\d)/g, (_, power: string) => POWERS[power]!)
    .replaceAll("*", "\u00b7");
}

/** A figure as the command line prints it, such as "31000 USD/GPU" or "98.28 1/um^2". */
export function readable(text: string): string {
  const at = text.indexOf(" ");
  return at < 0 ? grouped(text) : grouped(text.slice(0, at)) + unitText(text.slice(at));
}
