// What the map draws, as arrays: nodes at their places, colored by what they are in the scenario.

import { readable } from "../../design/readable";
import { type ConeGraph, levelsInView } from "../../graph/cone";
import { layout, type Placed } from "../../graph/layout";
import type { Line } from "../../graph/types";
import { bytesOf, type Palette } from "./palette";

/** With more nodes, only edges that carry something, or that lead to the target, are drawn. */
export const MOST_WITH_ALL_EDGES = 250;
const LEAST_SHARE = 0.01;
const STRIDE = 250;
const TARGET_RADIUS = 9;

/** Nodes and edges are known by their slot: their place in these arrays. */
export interface Scene {
  readonly nodes: readonly number[];
  readonly slotOf: ReadonlyMap<number, number>;
  readonly target: number;
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly radius: Float32Array;
  readonly color: Uint8Array;
  readonly labels: readonly string[];
  /** Two slots an edge: from the input to what is computed from it. */
  readonly ends: Int32Array;
  readonly edgeWidth: Float32Array;
  readonly edgeColor: Uint8Array;
  readonly width: number;
  readonly height: number;
  readonly bands: Placed["bands"];
}

/** Place and color the nodes in view; pauses often, so that the work can be spread over frames. */
export function* buildScene(
  cone: ConeGraph,
  nodes: readonly number[],
  lines: ReadonlyMap<string, Line>,
  opened: ReadonlySet<number>,
  palette: Palette,
): Generator<void, Scene> {
  const level = levelsInView(cone, nodes);
  yield;
  const scopeOf = (node: number) => cone.variables[node]!.scope;
  const layers = layersTopDown(cone);
  const placed = yield* layout(nodes, level, scopeOf, layers, [cone.users, cone.inputs]);
  const slotOf = new Map(nodes.map((node, slot) => [node, slot]));
  yield;
  const x = new Float32Array(nodes.length);
  const y = new Float32Array(nodes.length);
  const radius = new Float32Array(nodes.length);
  const color = new Uint8Array(4 * nodes.length);
  const labels: string[] = [];
  for (const [slot, node] of nodes.entries()) {
    const { name, role, scope } = cone.variables[node]!;
    const line = lines.get(name);
    const isTarget = node === cone.root;
    const isClosed = cone.inputs[node]!.length > 0 && !opened.has(node);
    x[slot] = placed.x[node]!;
    y[slot] = placed.y[node]!;
    radius[slot] = isTarget ? TARGET_RADIUS : radiusOf(line?.share ?? null, nodes.length);
    color.set(
      bytesOf(isTarget ? palette.target : colorOf(line?.status ?? role, palette)),
      4 * slot,
    );
    labels.push(
      labelOf(name, isTarget ? "" : scope, isClosed, isTarget ? "" : readable(line?.figure ?? "")),
    );
    if (slot % STRIDE === STRIDE - 1) yield;
  }
  const edges = yield* edgesOf(cone, nodes, slotOf, lines, palette);
  return {
    nodes,
    slotOf,
    target: slotOf.get(cone.root) ?? 0,
    x,
    y,
    radius,
    color,
    labels,
    ...edges,
    // The layout leaves room after the last column and row.
    width: Math.max(placed.width - 2.6, 1),
    height: Math.max(placed.height - 2.2, 1),
    bands: placed.bands,
  };
}

function* edgesOf(
  cone: ConeGraph,
  nodes: readonly number[],
  slotOf: ReadonlyMap<number, number>,
  lines: ReadonlyMap<string, Line>,
  palette: Palette,
): Generator<void, Pick<Scene, "ends" | "edgeWidth" | "edgeColor">> {
  const ends: number[] = [];
  const widths: number[] = [];
  const colors: number[] = [];
  const [plain, strong] = [bytesOf(palette.edge), bytesOf(palette.strong)];
  let since = 0;
  for (const [slot, node] of nodes.entries()) {
    const line = lines.get(cone.variables[node]!.name);
    const shares = new Map(line?.inputs.map((input) => [input.name, input.share]));
    for (const input of cone.inputs[node]!) {
      if (++since % STRIDE === 0) yield;
      const from = slotOf.get(input);
      if (from === undefined) continue;
      // Each node keeps the edge to what it is nearest to the target by.
      const isTree =
        cone.users[input]!.find((user) => cone.distance[user] === cone.distance[input]! - 1) ===
        node;
      const share = shares.get(cone.variables[input]!.name) ?? 0;
      const carries = Math.abs((line?.share ?? 0) * share);
      if (nodes.length > MOST_WITH_ALL_EDGES && !isTree && carries < LEAST_SHARE) continue;
      ends.push(from, slot);
      widths.push(0.8 + 2 * Math.min(carries, 1));
      colors.push(...(carries >= LEAST_SHARE ? strong : plain));
    }
  }
  return {
    ends: Int32Array.from(ends),
    edgeWidth: Float32Array.from(widths),
    edgeColor: Uint8Array.from(colors),
  };
}

/** Layers in the order of the stack, from the site down: deeper layers are declared earlier. */
function layersTopDown(cone: ConeGraph): string[] {
  const last = new Map<string, number>();
  // The cone lists inputs before what is computed from them.
  for (const [at, variable] of cone.variables.entries()) last.set(variable.scope, at);
  return [...last].sort((one, other) => other[1] - one[1]).map(([name]) => name);
}

/** The name without its layer, which the row says; a plus where inputs are closed. */
function labelOf(name: string, scope: string, isClosed: boolean, figure: string): string {
  const short = scope && name.startsWith(`${scope}.`) ? name.slice(scope.length + 1) : name;
  return `${short}${isClosed ? " +" : ""}${figure ? `  ${figure}` : ""}`;
}

function radiusOf(share: number | null, count: number): number {
  const least = count > 600 ? 2 : 3.5;
  return share === null ? least : least + 5 * Math.sqrt(Math.min(Math.abs(share), 1));
}

function colorOf(status: string, palette: Palette): string {
  switch (status) {
    case "missing":
      return palette.missing;
    case "incomplete":
      return palette.incomplete;
    case "given":
    case "root":
      return palette.given;
    case "constant":
      return palette.constant;
    default:
      return palette.computed;
  }
}
