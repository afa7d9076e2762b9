// How many digits of a number mean something: python/assay/model/language/figures.py has the same rule.

const DIGITS = 4;
const MOST_WHOLE = 1e7;

/** The value and its interval, with the digits that the interval leaves meaning to. */
export function round(numbers: number[], isMoney: boolean): string[] {
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
