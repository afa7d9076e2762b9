// Intervals of outputs: the scenario's uncertain inputs are drawn and the model is evaluated at each
// point. A Latin hypercube with a fixed seed; `assay resolve` draws more points, by another sequence.

import type { Model, Point } from "./model";
import type { Scenario, ValueData } from "./scenario";

export interface Interval {
  lower: number;
  upper: number;
}

/** Points evaluated in one step. */
const STEP = 16;

/** Values of an uncertain input at standard normal scores. */
export function drawn(
  model: Model,
  index: number,
  { value, draw }: ValueData,
  scores: Float64Array,
): Float64Array {
  if (draw === undefined) return scores.map(() => value);
  const { graph, machine } = model;
  const [kind, first, second = 0, third = 0] = draw;
  const facts: Record<string, number> = {
    kind,
    first,
    second,
    third,
    lower: graph.lower[index],
    upper: graph.upper[index],
    whole: graph.variable(index).count ? 1 : 0,
    score: 0,
  };
  const { inputs } = graph.data.draw;
  const point = Float64Array.from(inputs, (name) => facts[name]);
  return machine.evaluate(model.draw, point, scores.length, [inputs.indexOf("score")], [scores]);
}

/**
 * The 5th and 95th percentile of each output, some points a step; undefined where most points have no
 * value.
 */
export function* sampleIntervals(
  model: Model,
  scenario: Scenario,
  point: Point,
  outputs: readonly number[],
): Generator<void, (Interval | undefined)[]> {
  const names = Object.keys(scenario.values).filter((name) => scenario.values[name].draw);
  if (names.length === 0) return outputs.map(() => undefined);
  const scores = correlated(scenario, names, model.graph.data.draw.scores);
  const indexes = names.map((name) => model.graph.find(name));
  const columns = names.map((name, row) =>
    drawn(model, indexes[row], scenario.values[name], scores[row]),
  );
  yield;
  const count = scores[0].length;
  const samples = outputs.map(() => new Float64Array(count));
  for (let from = 0; from < count; from += STEP) {
    const part = columns.map((column) => column.subarray(from, from + STEP));
    const found = model.values(outputs, point.inputs, STEP, indexes, part);
    for (const [row, values] of found.entries()) samples[row].set(values, from);
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

/** Scores of every input: each takes every cell once, in an order of its own. */
function correlated(
  scenario: Scenario,
  names: readonly string[],
  cells: readonly number[],
): Float64Array[] {
  const random = generator(20);
  const own = new Map<string, Float64Array>();
  const sources = [...names, ...Object.values(scenario.factors).flatMap((row) => row.map(first))];
  for (const name of new Set(sources)) own.set(name, shuffled(cells, random));
  return names.map((name) => {
    const factors = name in scenario.selection.assign ? undefined : scenario.factors[name];
    if (factors === undefined) return own.get(name)!;
    const sum = new Float64Array(cells.length);
    for (const [member, weight] of factors) {
      const scores = own.get(member)!;
      for (let at = 0; at < sum.length; at++) sum[at] += weight * scores[at];
    }
    return sum;
  });
}

function first(pair: readonly [string, number]): string {
  return pair[0];
}

function shuffled(cells: readonly number[], random: () => number): Float64Array {
  const scores = Float64Array.from(cells);
  for (let at = scores.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [scores[at], scores[other]] = [scores[other], scores[at]];
  }
  return scores;
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
