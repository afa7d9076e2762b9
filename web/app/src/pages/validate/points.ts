// Rows of the scores as points: each figure once, on the chosen basis and filter.

import type { Basis, Case, Point, Row, Validation } from "./types";

export interface Filter {
  readonly basis: Basis;
  readonly suite: string;
  readonly accelerator: string;
  readonly quantity: string;
  readonly sample: string;
}

/** Every row once; scores of a quantity repeat those of its suite. */
export function rowsOf(validation: Validation): Row[] {
  return validation.scores
    .filter(({ pool, suite }) => !pool && !suite.includes("/"))
    .flatMap(({ rows }) => rows);
}

export function keyOf(row: Row): string {
  return `${row.case}/${row.quantity}`;
}

export function isChosen(row: Row, accelerator: string, filter: Filter): boolean {
  return (
    (filter.suite === "" || row.suite === filter.suite) &&
    (filter.accelerator === "" || accelerator === filter.accelerator) &&
    (filter.quantity === "" || row.quantity === filter.quantity) &&
    (filter.sample === "" || row.in_sample === (filter.sample === "in"))
  );
}

/** Figures with a prediction on this basis; a row without one is not a point. */
export function pointsOf(
  rows: readonly Row[],
  cases: ReadonlyMap<string, Case>,
  filter: Filter,
): Point[] {
  const found: Point[] = [];
  for (const row of rows) {
    const accelerator = cases.get(row.case)?.accelerator ?? "not stated";
    if (!isChosen(row, accelerator, filter) || !(row.observed > 0)) continue;
    const isHeldOut = filter.basis === "held_out" && row.in_sample;
    const predicted = isHeldOut ? row.held_out : row.predicted;
    if (predicted === null || !(predicted > 0)) continue;
    const [lo, hi] = isHeldOut
      ? [row.held_out_lo ?? null, row.held_out_hi ?? null]
      : [row.lo, row.hi];
    found.push({
      row,
      key: keyOf(row),
      accelerator,
      predicted,
      error: predicted / row.observed - 1,
      isInside: lo === null || hi === null ? null : lo <= row.observed && row.observed <= hi,
    });
  }
  return found;
}

export interface Summary {
  readonly count: number;
  readonly mean: number;
  readonly median: number;
  readonly p90: number;
  readonly judged: number;
  readonly inside: number;
}

/** Absolute errors of points, and the share inside their 90 % intervals; null without any. */
export function summarize(points: readonly Point[]): Summary | null {
  if (points.length === 0) return null;
  const sizes = points.map(({ error }) => Math.abs(error)).sort((one, other) => one - other);
  const judged = points.filter(({ isInside }) => isInside !== null);
  return {
    count: points.length,
    mean: sizes.reduce((sum, size) => sum + size, 0) / sizes.length,
    median: quantile(sizes, 0.5),
    p90: quantile(sizes, 0.9),
    judged: judged.length,
    inside: judged.filter(({ isInside }) => isInside).length,
  };
}

function quantile(sorted: readonly number[], share: number): number {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

/** Ends of the bins of errors; the outer ones are open. */
export const BINS = [-0.5, -0.3, -0.2, -0.1, -0.05, 0, 0.05, 0.1, 0.2, 0.3, 0.5] as const;

/** How many errors lie in each bin, from below the first end to above the last. */
export function histogram(points: readonly Point[]): number[] {
  const counts = new Array<number>(BINS.length + 1).fill(0);
  for (const { error } of points) {
    const bin = BINS.findIndex((end) => error < end);
    counts[bin < 0 ? BINS.length : bin] += 1;
  }
  return counts;
}
