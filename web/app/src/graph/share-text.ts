/** A share as text: "96.7 %", "-100 %", "0.3 %". */
export function percent(share: number, digits = 1): string {
  const value = 100 * share;
  if (value !== 0 && Math.abs(value) < 10 ** -digits) return value > 0 ? "< 0.1 %" : "> -0.1 %";
  return `${Number(value.toFixed(digits))} %`;
}
