// The graph that sigma draws: nodes at their places, colored by what they are in the scenario.

import Graph from "graphology";
import type { ConeGraph } from "../../graph/cone";
import type { Placed } from "../../graph/layout";
import type { Line } from "../../graph/types";
import type { Palette } from "./palette";

export type MapGraph = Graph;

/** With more nodes, only edges that carry something, or that lead to the target, are drawn. */
const MOST_WITH_ALL_EDGES = 250;
const LEAST_SHARE = 0.01;
const STRIDE = 250;

/** Pixels for the names of layers at the left and for labels at the right. */
export const MARGIN_LEFT = 110;
export const MARGIN_RIGHT = 130;

/** Factors that stretch a map to the shape of its frame: sigma keeps the shape of what it draws. */
export interface Scale {
  readonly x: number;
  readonly y: number;
}

export function scaleOf(
  placed: Placed,
  frame: { readonly width: number; readonly height: number },
): Scale {
  const shape = frame.width > 0 ? frame.height / frame.width : 1;
  const across = 1 + (MARGIN_LEFT + MARGIN_RIGHT) / Math.max(frame.width, 1);
  return { x: 1 / Math.max(placed.width, 1), y: (shape * across) / Math.max(placed.height, 1) };
}

export function* buildGraph(
  cone: ConeGraph,
  nodes: readonly number[],
  placed: Placed,
  scale: Scale,
  lines: ReadonlyMap<string, Line>,
  opened: ReadonlySet<number>,
  palette: Palette,
): Generator<void, MapGraph> {
  const graph = new Graph({ type: "directed", multi: false, allowSelfLoops: false });
  const inside = new Set(nodes);
  for (const [at, node] of nodes.entries()) {
    const { name, role, scope } = cone.variables[node]!;
    const line = lines.get(name);
    const isTarget = node === cone.root;
    const isClosed = cone.inputs[node]!.length > 0 && !opened.has(node);
    graph.addNode(name, {
      x: placed.x[node]! * scale.x,
      y: -placed.y[node]! * scale.y,
      label: labelOf(name, isTarget ? "" : scope, isClosed, line?.figure ?? ""),
      size: isTarget ? 9 : sizeOf(line?.share ?? null, nodes.length),
      color: isTarget ? palette.target : colorOf(line?.status ?? role, palette),
      forceLabel: isTarget,
    });
    if (at % STRIDE === STRIDE - 1) yield;
  }
  let since = 0;
  for (const node of nodes) {
    const { name } = cone.variables[node]!;
    const shares = new Map(lines.get(name)?.inputs.map((input) => [input.name, input.share]));
    for (const input of cone.inputs[node]!) {
      if (!inside.has(input)) continue;
      const source = cone.variables[input]!.name;
      // Each node keeps the edge to what it is nearest to the target by.
      const isTree =
        cone.users[input]!.find((user) => cone.distance[user] === cone.distance[input]! - 1) ===
        node;
      const carries = Math.abs((lines.get(name)?.share ?? 0) * (shares.get(source) ?? 0));
      if (nodes.length > MOST_WITH_ALL_EDGES && !isTree && carries < LEAST_SHARE) continue;
      graph.addDirectedEdge(source, name, {
        size: 0.5 + 2 * Math.min(carries, 1),
        color: carries >= LEAST_SHARE ? palette.strong : palette.edge,
      });
      if (++since % STRIDE === 0) yield;
    }
  }
  return graph;
}

/** The name without its layer, which the row says; a plus where inputs are closed. */
function labelOf(name: string, scope: string, isClosed: boolean, figure: string): string {
  const short = scope && name.startsWith(`${scope}.`) ? name.slice(scope.length + 1) : name;
  return `${short}${isClosed ? " +" : ""}${figure ? `  ${figure}` : ""}`;
}

function sizeOf(share: number | null, count: number): number {
  const least = count > 600 ? 2 : 3;
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
