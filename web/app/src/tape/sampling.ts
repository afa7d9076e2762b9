// Intervals of outputs: the scenario's uncertain inputs are drawn from their distributions and each
// point is resolved. A Latin hypercube with a fixed seed; correlated inputs by a Gaussian copula.
// `assay resolve` draws 4,096 Sobol points; a page draws fewer, and says how many.

import type { Graph } from "./graph";
import type { Point, Resolver } from "./resolver";
import type { DistributionData, Scenario } from "./scenario";

export const POINTS = 512;

export interface Interval {
  lower: number;
  upper: number;
}

interface Source {
  index: number;
  distribution: DistributionData;
}

/** The uncertain inputs of a scenario. */
export function sourcesOf(graph: Graph, scenario: Scenario): Source[] {
  return Object.entries(scenario.values).flatMap(([name, { distribution }]) =>
    distribution === undefined ? [] : [{ index: graph.find(name), distribution }],
  );
}

/**
 * The 5th and 95th percentile of each output, one point a step; undefined where most points have no
 * value.
 */
export function* sampleIntervals(
  resolver: Resolver,
  scenario: Scenario,
  point: Point,
  outputs: readonly number[],
  count = POINTS,
): Generator<void, (Interval | undefined)[]> {
  const { graph } = resolver;
  const sources = sourcesOf(graph, scenario);
  if (sources.length === 0) return outputs.map(() => undefined);
  const columns = draw(graph, sources, scenario.correlations, count);
  const samples = outputs.map(() => new Float64Array(count).fill(Number.NaN));
  const given = new Map(point.given);
  for (let at = 0; at < count; at++) {
    for (let row = 0; row < sources.length; row++) given.set(sources[row].index, columns[row][at]);
    resolver.reset({ given, variants: point.variants });
    for (let row = 0; row < outputs.length; row++) {
      samples[row][at] = resolver.value(outputs[row]) ?? Number.NaN;
    }
    yield;
  }
  return samples.map((row) => {
    const known = row.filter(Number.isFinite).sort();
    if (known.length * 2 < count) return undefined;
    return { lower: quantile(known, 0.05), upper: quantile(known, 0.95) };
  });
}

function quantile(sorted: Float64Array, probability: number): number {
  const place = probability * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

/** Values of every source at every point. */
function draw(
  graph: Graph,
  sources: readonly Source[],
  correlations: readonly (readonly [string, string, number])[],
  count: number,
): Float64Array[] {
  const random = generator(20);
  const quantiles = middles(count);
  const scores = sources.map(() => {
    const cells = shuffled(count, random);
    return Float64Array.from(cells, (cell) => quantiles[cell]);
  });
  correlate(graph, sources, correlations, scores);
  return sources.map(({ index, distribution }, row) => {
    const { count: isCount } = graph.variable(index);
    const [low, high] = [graph.lower[index], graph.upper[index]];
    return scores[row].map((score) => {
      const drawn = Math.min(Math.max(transform(distribution, score), low), high);
      return isCount ? Math.round(drawn) : drawn;
    });
  });
}

function shuffled(count: number, random: () => number): number[] {
  const cells = Array.from({ length: count }, (_, cell) => cell);
  for (let at = count - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [cells[at], cells[other]] = [cells[other], cells[at]];
  }
  return cells;
}

/** Mix the scores of correlated sources by the Cholesky factor of each block. */
function correlate(
  graph: Graph,
  sources: readonly Source[],
  correlations: readonly (readonly [string, string, number])[],
  scores: Float64Array[],
): void {
  const row = new Map(sources.map(({ index }, place) => [graph.variable(index).name, place]));
  const neighbors = new Map<number, Map<number, number>>();
  for (const [one, other, value] of correlations) {
    const [a, b] = [row.get(one), row.get(other)];
    if (a === undefined || b === undefined) continue;
    for (const [from, to] of [
      [a, b],
      [b, a],
    ]) {
      if (!neighbors.has(from)) neighbors.set(from, new Map());
      neighbors.get(from)!.set(to, value);
    }
  }
  const seen = new Set<number>();
  for (const start of neighbors.keys()) {
    if (seen.has(start)) continue;
    const block = [start];
    seen.add(start);
    for (const member of block) {
      for (const next of neighbors.get(member)!.keys()) {
        if (!seen.has(next)) {
          seen.add(next);
          block.push(next);
        }
      }
    }
    const matrix = block.map((i) =>
      block.map((j) => (i === j ? 1 : (neighbors.get(i)!.get(j) ?? 0))),
    );
    const factor = cholesky(matrix);
    const before = block.map((member) => scores[member]);
    for (const [place, member] of block.entries()) {
      scores[member] = before[0].map((_, at) =>
        factor[place].reduce((sum, weight, i) => sum + weight * before[i][at], 0),
      );
    }
  }
}

function cholesky(matrix: number[][]): number[][] {
  const rows: number[][] = [];
  for (const [i, line] of matrix.entries()) {
    const row = new Array<number>(matrix.length).fill(0);
    for (let j = 0; j <= i; j++) {
      const other = j < i ? rows[j] : row;
      let rest = line[j];
      for (let k = 0; k < j; k++) rest -= row[k] * other[k];
      row[j] = j < i ? rest / rows[j][j] : Math.sqrt(Math.max(rest, 0));
    }
    rows.push(row);
  }
  return rows;
}

/** The value of a distribution at a standard normal score. */
export function transform(distribution: DistributionData, score: number): number {
  const [a, b, c] = distribution.parameters;
  switch (distribution.kind) {
    case "normal":
      return a + b * score;
    case "lognormal":
      return a * Math.exp(b * score);
    case "uniform":
      return a + (b - a) * normalShare(score);
    case "triangular": {
      const p = normalShare(score);
      const split = c > a ? (b - a) / (c - a) : 0;
      return p < split
        ? a + Math.sqrt(p * (c - a) * (b - a))
        : c - Math.sqrt((1 - p) * (c - a) * (c - b));
    }
    default: {
      const sorted = Float64Array.from(distribution.parameters).sort();
      return quantile(sorted, normalShare(score));
    }
  }
}

function normalShare(score: number): number {
  // Zelen and Severo, Abramowitz and Stegun 26.2.17: the error is below 1e-7, far below that of
  // sampling.
  const t = 1 / (1 + 0.2316419 * Math.abs(score));
  const tail =
    (Math.exp((-score * score) / 2) / Math.sqrt(2 * Math.PI)) *
    t *
    (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return score < 0 ? tail : 1 - tail;
}

const kept = new Map<number, Float64Array>();

/** The scores in the middle of so many equally likely cells: every source takes each of them once. */
function middles(count: number): Float64Array {
  let found = kept.get(count);
  if (!found) {
    found = Float64Array.from({ length: count }, (_, cell) => normalQuantile((cell + 0.5) / count));
    kept.set(count, found);
  }
  return found;
}

/** Quantiles of the standard normal distribution, by bisection of its share: it is called rarely. */
function normalQuantile(probability: number): number {
  let [low, high] = [-9, 9];
  for (let step = 0; step < 52; step++) {
    const middle = (low + high) / 2;
    if (normalShare(middle) < probability) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** A small random generator (mulberry32), so that the same scenario has the same interval. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
