const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Bytes as the command line prints them: 1.5 MB. */
export function sizeText(bytes: number | null): string {
  if (bytes === null) return "-";
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}
