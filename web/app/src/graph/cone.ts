// The dependency cone of a variable as arrays, and the questions that its page asks of it.

import type { BriefVariable, Cone } from "./types";

export interface ConeGraph {
  readonly root: number;
  readonly variables: readonly BriefVariable[];
  readonly index: ReadonlyMap<string, number>;
  /** What each variable is computed from, and what is computed from it, by position. */
  readonly inputs: readonly (readonly number[])[];
  readonly users: readonly (readonly number[])[];
  /** Relations on the longest way to the root; members of a cycle come one after another. */
  readonly level: Int32Array;
  /** Relations on the shortest way to the root. */
  readonly distance: Int32Array;
}

/** Relations read between two pauses. */
const STRIDE = 500;

/** Read a cone; pauses often, so that the work can be spread over frames. */
export function* readGraph(cone: Cone): Generator<void, ConeGraph> {
  const index = new Map(cone.variables.map((variable, at) => [variable.name, at]));
  const inputs: number[][] = cone.variables.map(() => []);
  const users: number[][] = cone.variables.map(() => []);
  const seen = new Set<number>();
  for (const [at, relation] of cone.relations.entries()) {
    if (at % STRIDE === STRIDE - 1) yield;
    const to = index.get(relation.variable ?? "");
    if (to === undefined) continue;
    for (const name of relation.inputs) {
      const from = index.get(name);
      if (from === undefined) continue;
      // Two relations for one variable may share inputs.
      const key = from * cone.variables.length + to;
      if (seen.has(key)) continue;
      seen.add(key);
      inputs[to]!.push(from);
      users[from]!.push(to);
    }
  }
  yield;
  const root = index.get(cone.variable) ?? 0;
  const distance = distances(root, inputs);
  yield;
  const level = levels(distance, inputs, users);
  yield;
  return { root, variables: cone.variables, index, inputs, users, level, distance };
}

/** Read a cone at once. */
export function graphOf(cone: Cone): ConeGraph {
  const work = readGraph(cone);
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** Number of steps from a start along the edges; -1 where there is no way. */
export function distances(start: number, next: readonly (readonly number[])[]): Int32Array {
  const found = new Int32Array(next.length).fill(-1);
  found[start] = 0;
  const queue = [start];
  for (let at = 0; at < queue.length; at++) {
    const node = queue[at]!;
    for (const other of next[node]!) {
      if (found[other] !== -1) continue;
      found[other] = found[node]! + 1;
      queue.push(other);
    }
  }
  return found;
}

/** Longest ways from the root among nodes in view, by which the map has its columns. */
export function levelsInView(graph: ConeGraph, nodes: readonly number[]): Int32Array {
  const near = new Int32Array(graph.variables.length).fill(-1);
  for (const node of nodes) near[node] = graph.distance[node]!;
  return levels(near, graph.inputs, graph.users);
}

/** Longest ways from the root, by repeatedly taking a node whose users are all taken. */
function levels(
  near: Int32Array,
  inputs: readonly (readonly number[])[],
  users: readonly (readonly number[])[],
): Int32Array {
  const waiting = new Int32Array(inputs.length);
  const order: number[] = [];
  for (let node = 0; node < inputs.length; node++) {
    if (near[node] === -1) continue;
    order.push(node);
    waiting[node] = users[node]!.filter((user) => near[user] !== -1).length;
  }
  order.sort((one, other) => near[one]! - near[other]!);
  const level = new Int32Array(inputs.length);
  const done = new Uint8Array(inputs.length);
  const ready = order.filter((node) => waiting[node] === 0);
  let blocked = 0;
  for (let taken = 0; taken < order.length; taken++) {
    // A cycle has no node without users left: the nearest of what remains goes first.
    let node = ready.pop();
    while (node === undefined) {
      const next = order[blocked++]!;
      if (!done[next]) node = next;
    }
    if (done[node]) {
      taken--;
      continue;
    }
    done[node] = 1;
    for (const input of inputs[node]!) {
      if (done[input] || near[input] === -1) continue;
      level[input] = Math.max(level[input]!, level[node]! + 1);
      if (--waiting[input]! === 0) ready.push(input);
    }
  }
  return level;
}

/** The nodes in view: those that opened nodes lead to, less the hidden layers. */
export function inView(
  graph: ConeGraph,
  opened: ReadonlySet<number>,
  hidden: ReadonlySet<string>,
): number[] {
  const found = new Uint8Array(graph.variables.length);
  found[graph.root] = 1;
  const queue = [graph.root];
  for (let at = 0; at < queue.length; at++) {
    const node = queue[at]!;
    // A hidden layer is seen through: what lies below it stays in view.
    if (!opened.has(node) && !hidden.has(graph.variables[node]!.scope)) continue;
    for (const input of graph.inputs[node]!) {
      if (found[input]) continue;
      found[input] = 1;
      queue.push(input);
    }
  }
  return queue.filter((node) => node === graph.root || !hidden.has(graph.variables[node]!.scope));
}

/** The nodes within a distance of the root: opening them shows one relation more. */
export function within(graph: ConeGraph, depth: number): Set<number> {
  const found = new Set<number>();
  for (let node = 0; node < graph.variables.length; node++) {
    const distance = graph.distance[node]!;
    if (distance !== -1 && distance < depth) found.add(node);
  }
  return found;
}

/** The shortest way from one variable to another that is computed from it, in either order. */
export function pathBetween(graph: ConeGraph, one: number, other: number): number[] {
  return directed(graph, one, other) ?? directed(graph, other, one) ?? [];
}

function directed(graph: ConeGraph, from: number, to: number): number[] | null {
  const before = new Int32Array(graph.variables.length).fill(-1);
  before[from] = from;
  const queue = [from];
  for (let at = 0; at < queue.length && before[to] === -1; at++) {
    const node = queue[at]!;
    for (const user of graph.users[node]!) {
      if (before[user] !== -1) continue;
      before[user] = node;
      queue.push(user);
    }
  }
  if (before[to] === -1) return null;
  const path = [to];
  while (path[0] !== from) path.unshift(before[path[0]!]!);
  return path;
}

/** Every node on some way between two variables. */
export function between(graph: ConeGraph, one: number, other: number): Set<number> {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    const above = distances(from, graph.users);
    if (above[to] === -1) continue;
    const below = distances(to, graph.inputs);
    const found = new Set<number>();
    for (let node = 0; node < above.length; node++) {
      if (above[node] !== -1 && below[node] !== -1) found.add(node);
    }
    return found;
  }
  return new Set();
}

/** Variables whose name or meaning has every word, names that start with the text first. */
export function search<Found extends BriefVariable>(
  variables: readonly Found[],
  text: string,
  limit = 12,
): Found[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const ranked: [number, Found][] = [];
  for (const variable of variables) {
    const name = variable.name.toLowerCase();
    const whole = `${name} ${variable.meaning.toLowerCase()} ${variable.symbol.toLowerCase()}`;
    if (!words.every((word) => whole.includes(word))) continue;
    const first = words[0]!;
    const rank =
      name === text.toLowerCase() ? 0 : name.startsWith(first) ? 1 : name.includes(first) ? 2 : 3;
    ranked.push([rank, variable]);
  }
  ranked.sort((one, other) => one[0] - other[0] || one[1].name.length - other[1].name.length);
  return ranked.slice(0, limit).map(([, variable]) => variable);
}
