export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

export function short(value: number): string {
  return `${Number(value.toPrecision(4))}`;
}
