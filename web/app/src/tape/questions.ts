// Questions of many points: which inputs matter (tornado), where an output takes a value (solve), and
// what two inputs trade off (Pareto front). Each is a few hundred resolutions on the page.

import { drawn } from "./intervals";
import type { Model, Point } from "./model";
import type { Scenario, ValueData } from "./scenario";

/** How far an input without a stated uncertainty is moved, as a share of its value. */
export const NUDGE = 0.1;

export interface Swing {
  input: number;
  /** The input's two values, and the output there; undefined where it has none. */
  ends: [number, number];
  outputs: [number | undefined, number | undefined];
  /** Whether the ends are those of the input's own 90 % interval. */
  isStated: boolean;
}

/** The value of a variable with some inputs moved; undefined where it has none. */
function valueAt(
  model: Model,
  point: Point,
  moved: readonly (readonly [number, number])[],
  target: number,
): number | undefined {
  const [[value]] = model.values([target], model.moved(point, moved));
  return Number.isNaN(value) ? undefined : value;
}

/** The 90 % interval of an input, or its value 10 % lower and higher, within its bounds. */
export function endsOf(model: Model, index: number, stated: ValueData): [number, number] {
  const { graph } = model;
  const { value } = stated;
  const { end } = graph.data.draw;
  const [low, high] =
    stated.draw === undefined
      ? [value - NUDGE * Math.abs(value), value + NUDGE * Math.abs(value)]
      : drawn(model, index, stated, Float64Array.of(-end, end));
  const bounded = (number: number) =>
    Math.min(Math.max(number, graph.lower[index]), graph.upper[index]);
  if (!graph.variable(index).count) return [bounded(low), bounded(high)];
  const step = (to: number, by: number) =>
    bounded(Math.round(to) === value ? value + by : Math.round(to));
  return [step(bounded(low), -1), step(bounded(high), 1)];
}

/** How far each input of a target's cone moves it, the largest first; one input a step. */
export function* tornado(
  model: Model,
  scenario: Scenario,
  point: Point,
  target: number,
  onlyStated: boolean,
): Generator<void, Swing[]> {
  const middle = valueAt(model, point, [], target);
  if (middle === undefined) return [];
  const inputs = [...model.cone(point.inputs, [target])].filter((index) => point.given.has(index));
  const swings: Swing[] = [];
  for (const input of inputs) {
    const stated = scenario.values[model.graph.variable(input).name];
    if (onlyStated && stated.draw === undefined) continue;
    const ends = endsOf(model, input, stated);
    const outputs = ends.map((end) => valueAt(model, point, [[input, end]], target));
    yield;
    if (outputs.every((output) => output === middle)) continue;
    swings.push({
      input,
      ends,
      outputs: [outputs[0], outputs[1]],
      isStated: stated.draw !== undefined,
    });
  }
  // The length of a bar, which an end without a value leaves at the middle.
  const size = ({ outputs }: Swing) => Math.abs((outputs[1] ?? middle) - (outputs[0] ?? middle));
  return swings.sort((one, other) => size(other) - size(one));
}

export interface Solved {
  /** Values of the input at which the target is as required, the nearest first. */
  roots: number[];
  /** Without any: the input at which the target comes nearest, and the target there. */
  nearest: { input: number; output: number } | undefined;
}

const DECADES = 6;
const PER_DECADE = 16;
const BISECTIONS = 200;

/** Find the values of an input at which a target takes a value. */
export function solveFor(
  model: Model,
  point: Point,
  input: number,
  target: number,
  required: number,
): Solved {
  const { graph } = model;
  const now = point.given.get(input);
  const isWhole = graph.variable(input).count === true;
  const residual = (value: number) => {
    const found = valueAt(model, point, [[input, value]], target);
    return found === undefined ? Number.NaN : found - required;
  };
  const grid = gridOf(graph.lower[input], graph.upper[input], now ?? 1, isWhole);
  const values = grid.map(residual);
  const roots: number[] = [];
  for (let i = 0; i < grid.length; i++) {
    if (values[i] === 0) roots.push(grid[i]);
    if (i === 0 || !(values[i - 1] * values[i] < 0)) continue;
    const root = bisect(residual, grid[i - 1], grid[i], values[i - 1]);
    // At a jump the residual changes sign without a root.
    const misfit = Math.abs(residual(root));
    if (misfit <= 1e-9 * Math.max(Math.abs(required), 1e-300)) {
      if (!isWhole || Number.isInteger(root)) roots.push(root);
    }
  }
  const start = now ?? 0;
  roots.sort((one, other) => Math.abs(one - start) - Math.abs(other - start));
  return { roots, nearest: roots.length > 0 ? undefined : nearestOf(grid, values, required) };
}

function nearestOf(grid: number[], values: number[], required: number): Solved["nearest"] {
  let best = -1;
  for (let i = 0; i < grid.length; i++) {
    if (!Number.isFinite(values[i])) continue;
    if (best < 0 || Math.abs(values[i]) < Math.abs(values[best])) best = i;
  }
  return best < 0 ? undefined : { input: grid[best], output: values[best] + required };
}

function gridOf(lower: number, upper: number, near: number, isWhole: boolean): number[] {
  const size = Math.abs(near) || 1;
  const count = 2 * DECADES * PER_DECADE;
  const ratios = Array.from({ length: count + 1 }, (_, i) => 10 ** (i / PER_DECADE - DECADES));
  let points = ratios.map((ratio) => size * ratio);
  if (lower < 0) points = [...points.map((value) => -value), 0, ...points];
  for (const end of [lower, upper]) if (Number.isFinite(end)) points.push(end);
  if (Number.isFinite(lower) && Number.isFinite(upper)) {
    for (let i = 0; i <= 128; i++) points.push(lower + ((upper - lower) * i) / 128);
  }
  points.push(near);
  if (isWhole) points = points.map(Math.round);
  const inside = points.filter((value) => lower <= value && value <= upper);
  return [...new Set(inside)].sort((one, other) => one - other);
}

function bisect(residual: (x: number) => number, low: number, high: number, atLow: number): number {
  let [left, right] = [low, high];
  for (let step = 0; step < BISECTIONS; step++) {
    const middle = left + (right - left) / 2;
    if (middle === left || middle === right) break;
    const found = residual(middle);
    if (found === 0) return middle;
    if (found * atLow > 0) left = middle;
    else right = middle;
  }
  return Math.abs(residual(left)) < Math.abs(residual(right)) ? left : right;
}

export interface FrontPoint {
  inputs: [number, number];
  outputs: [number, number];
  /** Constraints that do not hold there. */
  violated: string[];
  isBest: boolean;
}

/** Every combination of two inputs' values, a step each, with the points that no other one beats. */
export function* pareto(
  model: Model,
  point: Point,
  inputs: [number, number],
  values: [number[], number[]],
  outputs: [number, number],
  isMore: [boolean, boolean],
): Generator<void, FrontPoint[]> {
  const found: FrontPoint[] = [];
  const { constraints } = model.graph.data;
  for (const first of values[0]) {
    for (const second of values[1]) {
      const moved = model.moved(point, [
        [inputs[0], first],
        [inputs[1], second],
      ]);
      const here = model.at(moved);
      const [x, y] = [here.value(outputs[0]), here.value(outputs[1])];
      if (x === undefined || y === undefined) continue;
      const broken = constraints.filter((_, place) => here.constraint(place) === "false");
      found.push({
        inputs: [first, second],
        outputs: [x, y],
        violated: broken.map(({ name }) => name),
        isBest: false,
      });
      yield;
    }
  }
  markBest(found, isMore);
  return found;
}

/** Mark the feasible points that no feasible point beats in both outputs. */
export function markBest(points: FrontPoint[], isMore: readonly [boolean, boolean]): void {
  const cost = ({ outputs }: FrontPoint, axis: 0 | 1) =>
    isMore[axis] ? -outputs[axis] : outputs[axis];
  const feasible = points
    .filter(({ violated }) => violated.length === 0)
    .sort((one, other) => cost(one, 0) - cost(other, 0) || cost(one, 1) - cost(other, 1));
  let least = Number.POSITIVE_INFINITY;
  for (const point of feasible) {
    if (cost(point, 1) < least) {
      point.isBest = true;
      least = cost(point, 1);
    }
  }
}
