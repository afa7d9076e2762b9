import { useEffect, useRef, useState } from "react";
import type Sigma from "sigma";
import { ErrorState, Loading } from "../../components/states";
import { type ConeGraph, levelsInView } from "../../graph/cone";
import { layout, overFrames, type Placed } from "../../graph/layout";
import type { Line } from "../../graph/types";
import {
  buildGraph,
  MARGIN_LEFT,
  MARGIN_RIGHT,
  type MapGraph,
  type Scale,
  scaleOf,
} from "./drawing";
import { FRAME_BUDGET } from "./page";
import { type Palette, readPalette, watchTheme } from "./palette";

/** Nodes up to which every name is written. */
const SMALL = 90;

interface Drawn {
  readonly renderer: Sigma;
  readonly placed: Placed;
  readonly scale: Scale;
}

/** What the reducers read while they color nodes and edges. */
interface Highlight {
  palette: Palette;
  graph: MapGraph | null;
  hovered: string | null;
  selected: string;
  path: ReadonlySet<string>;
  near: ReadonlySet<string>;
}

/** The cone as a map: columns are relations away from the target, rows are layers of the stack. */
export function ConeMap(props: {
  readonly graph: ConeGraph;
  readonly nodes: readonly number[];
  readonly lines: ReadonlyMap<string, Line>;
  readonly opened: ReadonlySet<number>;
  readonly path: readonly number[];
  readonly selected: number;
  readonly select: (node: number) => void;
  readonly toggle: (node: number) => void;
}) {
  const { graph, nodes, lines, opened } = props;
  const place = useRef<HTMLDivElement>(null);
  const labels = useRef<HTMLDivElement>(null);
  const drawn = useRef<Drawn | null>(null);
  const highlight = useRef<Highlight>({
    palette: readPalette(),
    graph: null,
    hovered: null,
    selected: "",
    path: new Set(),
    near: new Set(),
  });
  const handlers = useRef(props);
  handlers.current = props;
  const [trouble, setTrouble] = useState<Error | null>(null);
  const [isReady, setReady] = useState(false);
  const [theme, setTheme] = useState(0);
  useEffect(() => watchTheme(() => setTheme((value) => value + 1)), []);

  useEffect(() => {
    const state = highlight.current;
    state.selected = graph.variables[props.selected]?.name ?? "";
    state.path = new Set(props.path.map((node) => graph.variables[node]!.name));
    state.near = new Set(
      [...graph.inputs[props.selected]!, ...graph.users[props.selected]!].map(
        (node) => graph.variables[node]!.name,
      ),
    );
    drawn.current?.renderer.refresh({ skipIndexation: true });
  }, [graph, props.selected, props.path]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of theme draws anew.
  useEffect(() => {
    const leave = new AbortController();
    const palette = readPalette();
    const frame = place.current!.getBoundingClientRect();
    function* work(): Generator<void, [Placed, Scale, MapGraph]> {
      const level = levelsInView(graph, nodes);
      yield;
      const placed = yield* layout(
        nodes,
        level,
        (node) => graph.variables[node]!.scope,
        layersTopDown(graph),
        [graph.users, graph.inputs],
      );
      const scale = scaleOf(placed, frame);
      return [
        placed,
        scale,
        yield* buildGraph(graph, nodes, placed, scale, lines, opened, palette),
      ];
    }
    async function draw(): Promise<void> {
      try {
        const [{ default: SigmaClass }, [placed, scale, built]] = await Promise.all([
          import("sigma"),
          overFrames(work(), FRAME_BUDGET, leave.signal),
        ]);
        if (leave.signal.aborted || !place.current) return;
        highlight.current.palette = palette;
        highlight.current.graph = built;
        if (drawn.current) {
          drawn.current.renderer.setGraph(built);
          restyle(drawn.current.renderer, palette);
          drawn.current = { ...drawn.current, placed, scale };
        } else {
          const renderer = start(SigmaClass, built, place.current, highlight.current, handlers);
          drawn.current = { renderer, placed, scale };
          renderer.on("afterRender", () => moveLabels(drawn.current, labels.current));
        }
        leaveMargins(drawn.current);
        nameBands(placed, labels.current);
        moveLabels(drawn.current, labels.current);
        setReady(true);
      } catch (error) {
        // Without WebGL there is no map; the table shows the same.
        if (!leave.signal.aborted) setTrouble(error as Error);
      }
    }
    draw();
    return () => leave.abort();
  }, [graph, nodes, lines, opened, theme]);

  useEffect(
    () => () => {
      drawn.current?.renderer.kill();
      drawn.current = null;
    },
    [],
  );

  if (trouble) {
    return <ErrorState error={trouble} title="The map cannot be drawn: the table shows the same" />;
  }
  const camera = () => drawn.current?.renderer.getCamera();
  return (
    <div className="cone-map">
      <div
        className="cone-canvas"
        ref={place}
        role="img"
        data-ready={isReady}
        data-nodes={nodes.length}
        aria-label={`Map of ${nodes.length} variables; the table has the same`}
      />
      <div className="cone-bands" ref={labels} aria-hidden="true" />
      {!isReady && <Loading what={`Placing ${nodes.length.toLocaleString("en-US")} variables`} />}
      <div className="cone-zoom" role="group" aria-label="Zoom">
        <button
          type="button"
          className="button"
          aria-label="Zoom in"
          onClick={() => camera()?.animatedZoom({ duration: motion() })}
        >
          +
        </button>
        <button
          type="button"
          className="button"
          aria-label="Zoom out"
          onClick={() => camera()?.animatedUnzoom({ duration: motion() })}
        >
          {"\u2212"}
        </button>
        <button
          type="button"
          className="button"
          onClick={() => camera()?.animatedReset({ duration: motion() })}
        >
          Fit
        </button>
      </div>
      <ul className="cone-legend small" aria-label="Colors of the map">
        <li className="is-target">target</li>
        <li className="is-computed">computed</li>
        <li className="is-given">given</li>
        <li className="is-constant">constant</li>
        <li className="is-incomplete">lacks inputs</li>
        <li className="is-missing">missing</li>
      </ul>
    </div>
  );
}

/** Milliseconds of a movement; none where people asked for less motion. */
function motion(): number {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 200;
}

/** Layers in the order of the stack, from the site down: deeper layers are declared earlier. */
function layersTopDown(graph: ConeGraph): string[] {
  const order = new Map<string, number>();
  // The cone lists inputs before what is computed from them.
  graph.variables.forEach((variable, at) => {
    const sum = order.get(variable.scope);
    order.set(variable.scope, Math.max(sum ?? 0, at));
  });
  return [...order].sort((one, other) => other[1] - one[1]).map(([name]) => name);
}

type Handlers = { readonly current: Parameters<typeof ConeMap>[0] };

function start(
  SigmaClass: typeof Sigma,
  graph: MapGraph,
  place: HTMLElement,
  state: Highlight,
  handlers: Handlers,
): Sigma {
  const renderer = new SigmaClass(graph, place, {
    allowInvalidContainer: true,
    defaultEdgeType: "line",
    hideEdgesOnMove: graph.order > 800,
    labelDensity: 0.35,
    labelGridCellSize: 110,
    labelRenderedSizeThreshold: 5,
    labelFont: getComputedStyle(document.body).fontFamily,
    labelSize: 12,
    minCameraRatio: 0.01,
    maxCameraRatio: 3,
    stagePadding: 24,
    defaultDrawNodeHover: (context, data, settings) =>
      drawLabel(context, data, settings, state.palette),
    zIndex: true,
    nodeReducer: (name, data) => {
      const isMarked = name === state.hovered || name === state.selected || state.path.has(name);
      if (isMarked)
        return { ...data, highlighted: name !== state.hovered, zIndex: 2, forceLabel: true };
      if (state.path.size > 0) return { ...data, color: state.palette.faint, label: "" };
      return state.near.has(name) ? { ...data, zIndex: 1, forceLabel: state.near.size < 12 } : data;
    },
    edgeReducer: (name, data) => {
      const [source, target] = state.graph!.extremities(name) as [string, string];
      const colors = state.palette;
      if (state.path.has(source) && state.path.has(target))
        return { ...data, color: colors.path, size: 2.5, zIndex: 2 };
      const focus = state.hovered ?? state.selected;
      if (source === focus || target === focus)
        return { ...data, color: colors.near, size: 1.2, zIndex: 1, hidden: false };
      return data;
    },
  });
  restyle(renderer, state.palette);
  const node = (name: string) => handlers.current.graph.index.get(name)!;
  renderer.on("clickNode", ({ node: name }) => handlers.current.select(node(name)));
  renderer.on("doubleClickNode", ({ node: name, event }) => {
    event.preventSigmaDefault();
    handlers.current.toggle(node(name));
  });
  renderer.on("enterNode", ({ node: name }) => {
    state.hovered = name;
    renderer.refresh({ skipIndexation: true });
  });
  renderer.on("leaveNode", () => {
    state.hovered = null;
    renderer.refresh({ skipIndexation: true });
  });
  return renderer;
}

/** The label of a marked node, on the color of the page so that it can be read over others. */
function drawLabel(
  context: CanvasRenderingContext2D,
  data: {
    readonly label: string | null;
    readonly x: number;
    readonly y: number;
    readonly size: number;
  },
  settings: { readonly labelSize: number; readonly labelFont: string },
  palette: Palette,
): void {
  context.beginPath();
  context.arc(data.x, data.y, data.size + 3, 0, 2 * Math.PI);
  context.strokeStyle = palette.target;
  context.lineWidth = 2;
  context.stroke();
  if (!data.label) return;
  context.font = `600 ${settings.labelSize}px ${settings.labelFont}`;
  const width = context.measureText(data.label).width;
  const left = data.x + data.size + 5;
  context.fillStyle = palette.raised;
  context.fillRect(
    left - 3,
    data.y - settings.labelSize / 2 - 4,
    width + 6,
    settings.labelSize + 8,
  );
  context.fillStyle = palette.ink;
  context.fillText(data.label, left, data.y + settings.labelSize / 3);
}

function restyle(renderer: Sigma, palette: Palette): void {
  // A small map has room for every name.
  const isSmall = renderer.getGraph().order < SMALL;
  renderer.setSetting("labelRenderedSizeThreshold", isSmall ? 0 : 5);
  renderer.setSetting("labelDensity", isSmall ? 1 : 0.35);
  renderer.setSetting("labelColor", { color: palette.ink });
  renderer.setSetting("defaultEdgeColor", palette.edge);
}

/** Room for the names of layers at the left and for labels at the right. */
function leaveMargins({ renderer, placed, scale }: Drawn): void {
  const { width } = renderer.getDimensions();
  const right = (placed.width - 2) * scale.x;
  const pixel = width > 0 ? right / width : 0;
  renderer.setCustomBBox({
    x: [-MARGIN_LEFT * pixel, right + MARGIN_RIGHT * pixel],
    y: [-(placed.height - 1.5) * scale.y, 0],
  });
  renderer.refresh();
}

/** Names of the layers at the left edge, at the height of their rows. */
function nameBands(placed: Placed, labels: HTMLElement | null): void {
  labels?.replaceChildren(
    ...placed.bands.map((band) => {
      const label = document.createElement("span");
      label.textContent = band.name;
      return label;
    }),
  );
}

function moveLabels(drawn: Drawn | null, labels: HTMLElement | null): void {
  if (!drawn || !labels) return;
  const { renderer, placed, scale } = drawn;
  const { height } = renderer.getDimensions();
  let last = -20;
  for (const [at, band] of placed.bands.entries()) {
    const label = labels.children[at] as HTMLElement | undefined;
    if (!label) continue;
    const middle = renderer.graphToViewport({
      x: 0,
      y: (-(band.top + band.bottom - 1) / 2) * scale.y,
    }).y;
    // Names that would cover each other are left out until there is room.
    const isShown = middle > 6 && middle < height - 6 && middle - last > 13;
    if (isShown) last = middle;
    label.hidden = !isShown;
    label.style.transform = `translateY(${Math.round(middle)}px)`;
  }
}
