// Variables that define each other, solved together: some are guessed (the tears), the others follow
// from them in order, and the tears' own relations give the residual for a damped Newton iteration.

import type { BlockData, Graph, RelationData } from "./graph";
import { FAILED, KNOWN, WALKING } from "./status";

const TOLERANCE = 1e-13;
const SOLVED = 1e-9;
const MOST_STEPS = 200;
const SMALLEST_STEP = 2 ** -30;
const ARMIJO = 1e-4;
const FACTORS = [1, 10, 0.1, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e12, 1e15];

/** What a block is solved in: the values of a point and the relations that give them. */
interface Resolver {
  readonly graph: Graph;
  readonly status: Uint8Array;
  readonly values: Float64Array;
  readonly chosen: Int32Array;
  readonly origin: Int32Array;
  readonly needs: (readonly number[] | undefined)[];
  candidates(index: number): readonly number[];
  relation(number: number): RelationData;
  evaluate(number: number, inputs: readonly number[]): number;
  collect(inputs: readonly number[]): number;
  lack(index: number): number;
  fail(index: number, origin: number, reason?: string): number;
}

interface Members {
  tears: number[];
  order: number[];
  relation: Map<number, number>;
}

/** Compute every member of a block that is not given. */
export function solveBlock(resolver: Resolver, block: BlockData): void {
  const free = block.members.filter((member) => resolver.status[member] !== KNOWN);
  const relation = new Map<number, number>();
  for (const member of free) {
    const choices = resolver.candidates(member);
    if (choices.length !== 1 || resolver.relation(choices[0]).formula === null) {
      const name = resolver.graph.variable(member).name;
      const reason = `block ${block.name}: which relation defines ${name} cannot be decided on a page`;
      for (const other of free) resolver.fail(other, member, reason);
      return;
    }
    relation.set(member, choices[0]);
  }
  const inputs = free.flatMap((member) => resolver.relation(relation.get(member)!).inputs);
  const outside = [...new Set(inputs.filter((input) => !relation.has(input)))];
  for (const member of free) {
    resolver.chosen[member] = relation.get(member)!;
    resolver.needs[member] = resolver.relation(relation.get(member)!).inputs;
    resolver.status[member] = WALKING;
  }
  const collected = resolver.collect(outside);
  if (collected !== KNOWN) {
    const failed = outside.find((input) => resolver.status[input] === FAILED);
    for (const member of free) {
      if (failed === undefined) resolver.lack(member);
      else resolver.fail(member, resolver.origin[failed]);
    }
    return;
  }
  const tears = findTears(resolver, relation);
  const order = orderOf(resolver, relation, tears)!.filter((member) => !tears.includes(member));
  const members = { tears, order, relation };
  const solved = starts(resolver, block, tears).some((start) => newton(resolver, members, start));
  if (!solved) {
    const reason = `simultaneous block ${block.name} does not converge`;
    for (const member of free) resolver.fail(member, free[0], reason);
    return;
  }
  for (const member of free) resolver.status[member] = KNOWN;
}

/** The smallest set of members that breaks all cycles. */
function findTears(resolver: Resolver, relation: Map<number, number>): number[] {
  const names = [...relation.keys()];
  for (let size = 0; size <= names.length; size++) {
    for (const chosen of combinations(names, size)) {
      if (orderOf(resolver, relation, chosen) !== undefined) return chosen;
    }
  }
  return names;
}

function* combinations(items: number[], size: number, from = 0): Generator<number[]> {
  if (size === 0) {
    yield [];
    return;
  }
  for (let at = from; at + size <= items.length; at++) {
    for (const rest of combinations(items, size - 1, at + 1)) yield [items[at], ...rest];
  }
}

/** The order in which members follow from the tears; undefined where a cycle remains. */
function orderOf(
  resolver: Resolver,
  relation: Map<number, number>,
  tears: readonly number[],
): number[] | undefined {
  const ready = new Set(tears);
  let left = [...relation.keys()].filter((member) => !ready.has(member));
  while (left.length > 0) {
    const free = left.filter((member) =>
      resolver
        .relation(relation.get(member)!)
        .inputs.every((input) => !relation.has(input) || ready.has(input)),
    );
    if (free.length === 0) return undefined;
    for (const member of free) ready.add(member);
    left = left.filter((member) => !ready.has(member));
  }
  return [...ready];
}

/** Initial guesses: the declared ones, then wider ones within bounds. */
function starts(resolver: Resolver, block: BlockData, tears: number[]): number[][] {
  const declared = tears.map((tear) => block.starts[block.members.indexOf(tear)]);
  const { lower, upper } = resolver.graph;
  const found = FACTORS.map((factor) =>
    tears.map((tear, place) => {
      const [low, high] = [lower[tear], upper[tear]];
      if (Number.isFinite(low) && Number.isFinite(high)) {
        return low + (factor / (1 + factor)) * (high - low);
      }
      return clamp((declared[place] ?? 1) * factor, low, high);
    }),
  );
  const first = declared.filter((start): start is number => start !== null);
  return first.length === tears.length ? [first, ...found] : found;
}

/** Whether the iteration from `start` ends in a solution, which is then in `resolver.values`. */
function newton(resolver: Resolver, members: Members, start: number[]): boolean {
  const { lower, upper } = resolver.graph;
  const bounded = (point: number[]) =>
    point.map((x, i) => clamp(x, lower[members.tears[i]], upper[members.tears[i]]));
  let position = bounded(start);
  let residual = residuals(resolver, members, position);
  for (let step = 0; step < MOST_STEPS; step++) {
    if (!residual.every(Number.isFinite)) return false;
    const size = position.map((x, i) => Math.max(Math.abs(x), Math.abs(x + residual[i])));
    if (residual.every((r, i) => Math.abs(r) <= 2 * Number.EPSILON * size[i])) return true;
    const move = direction(resolver, members, position, residual, size);
    const scale = size.map((s, i) => Math.max(s, Math.abs(move[i]), Number.MIN_VALUE));
    const before = norm(residual, scale);
    const isLast = move.every((m, i) => Math.abs(m) <= TOLERANCE * Math.max(size[i], Math.abs(m)));
    let length = 1;
    let [next, found] = [position, residual];
    for (; length >= SMALLEST_STEP; length /= 2) {
      next = bounded(position.map((x, i) => x + length * move[i]));
      found = residuals(resolver, members, next);
      if (isLast || norm(found, scale) <= (1 - ARMIJO * length) * before) break;
    }
    if (length < SMALLEST_STEP) return false;
    // Where a relation is steep, a short step says nothing: the last position has to solve it.
    if (isLast)
      return found.every((r, i) => Math.abs(r) <= SOLVED * Math.max(size[i], Math.abs(next[i])));
    [position, residual] = [next, found];
  }
  return false;
}

/** What the tears' relations give, less the tears; sets the values of all members. */
function residuals(resolver: Resolver, members: Members, position: number[]): number[] {
  const { tears, order, relation } = members;
  for (const [place, tear] of tears.entries()) resolver.values[tear] = position[place];
  for (const member of order) resolver.values[member] = updated(resolver, relation, member);
  return tears.map((tear, place) => updated(resolver, relation, tear) - position[place]);
}

function updated(resolver: Resolver, relation: Map<number, number>, member: number): number {
  const { formula, inputs } = resolver.relation(relation.get(member)!);
  return resolver.evaluate(formula!, inputs);
}

/** Newton's step by differences; a step of the fixed-point iteration where that is singular. */
function direction(
  resolver: Resolver,
  members: Members,
  position: number[],
  residual: number[],
  size: number[],
): number[] {
  const columns = position.map((x, place) => {
    const reach = 1e-7 * (size[place] || 1);
    const shifted = position.map((y, i) => (i === place ? x + reach : y));
    const there = residuals(resolver, members, shifted);
    return there.map((r, row) => (residual[row] - r) / (shifted[place] - x));
  });
  const matrix = residual.map((r, row) => [...columns.map((column) => column[row]), r]);
  const solved = solveLinear(matrix);
  return solved.every(Number.isFinite) ? solved : residual;
}

/** Gaussian elimination with partial pivoting of rows that end in the right-hand side. */
function solveLinear(rows: number[][]): number[] {
  const count = rows.length;
  for (let column = 0; column < count; column++) {
    let pivot = column;
    for (let row = column + 1; row < count; row++) {
      if (Math.abs(rows[row][column]) > Math.abs(rows[pivot][column])) pivot = row;
    }
    [rows[column], rows[pivot]] = [rows[pivot], rows[column]];
    for (let row = 0; row < count; row++) {
      if (row === column) continue;
      const factor = rows[row][column] / rows[column][column];
      rows[row] = rows[row].map((value, at) => value - factor * rows[column][at]);
    }
  }
  return rows.map((row, at) => row[count] / row[at]);
}

function norm(residual: number[], scale: number[]): number {
  return Math.max(...residual.map((r, i) => Math.abs(r) / scale[i]));
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
