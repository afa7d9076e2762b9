import { useEffect, useRef, useState } from "react";
import { ErrorState, Loading } from "../../components/states";
import type { ConeGraph } from "../../graph/cone";
import { overFrames } from "../../graph/layout";
import type { Line } from "../../graph/types";
import { WHOLE, zoomAt } from "./camera";
import { glide, listen, STEP } from "./gestures";
import { readPalette, watchTheme } from "./palette";
import { type Marks, Renderer } from "./renderer";
import { buildScene, type Scene } from "./scene";

interface MapProps {
  readonly graph: ConeGraph;
  readonly nodes: readonly number[];
  readonly lines: ReadonlyMap<string, Line>;
  readonly opened: ReadonlySet<number>;
  readonly path: readonly number[];
  readonly selected: number;
  readonly select: (node: number) => void;
  readonly toggle: (node: number) => void;
}

interface Drawn {
  readonly renderer: Renderer;
  readonly scene: Scene;
}

/** The cone as a map: columns are relations away from the target, rows are layers of the stack. */
export function ConeMap(props: MapProps) {
  const { graph, nodes, lines, opened, path, selected } = props;
  const place = useRef<HTMLDivElement>(null);
  const labels = useRef<HTMLDivElement>(null);
  const drawn = useRef<Drawn | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [trouble, setTrouble] = useState<Error | null>(null);
  const [isReady, setReady] = useState(false);
  const [hovered, hover] = useState(-1);
  const [theme, setTheme] = useState(0);
  useEffect(() => watchTheme(() => setTheme((value) => value + 1)), []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of theme draws anew.
  useEffect(() => {
    const leave = new AbortController();
    const palette = readPalette();
    async function draw(): Promise<void> {
      try {
        const work = buildScene(graph, nodes, lines, opened, palette);
        const scene = await overFrames(work, leave.signal);
        if (leave.signal.aborted || !place.current) return;
        const renderer = drawn.current?.renderer ?? new Renderer(place.current, palette);
        renderer.afterFrame = () => moveBands(drawn.current, labels.current);
        drawn.current = { renderer, scene };
        renderer.show(scene, palette, marksOf(scene, -1, latest.current));
        nameBands(scene, labels.current);
        setReady(true);
      } catch (error) {
        // Without WebGL there is no map; the table shows the same.
        if (!leave.signal.aborted) setTrouble(error as Error);
      }
    }
    draw();
    return () => leave.abort();
  }, [graph, nodes, lines, opened, theme]);

  useEffect(() => {
    if (!isReady || !drawn.current || !place.current) return;
    const leave = new AbortController();
    const { renderer } = drawn.current;
    const node = (slot: number) => drawn.current!.scene.nodes[slot]!;
    const answers = {
      hover: (slot: number) => hover(slot < 0 ? -1 : node(slot)),
      click: (slot: number) => latest.current.select(node(slot)),
      doubleClick: (slot: number) => latest.current.toggle(node(slot)),
    };
    listen(place.current, renderer, answers, leave.signal);
    return () => leave.abort();
  }, [isReady]);

  useEffect(() => {
    if (!drawn.current) return;
    const { renderer, scene } = drawn.current;
    renderer.mark(marksOf(scene, hovered, { selected, path }));
  }, [hovered, selected, path]);

  useEffect(
    () => () => {
      drawn.current?.renderer.stop();
      drawn.current = null;
    },
    [],
  );

  if (trouble) {
    return <ErrorState error={trouble} title="The map cannot be drawn: the table shows the same" />;
  }

  function zoom(factor: number): void {
    if (!drawn.current) return;
    const { renderer } = drawn.current;
    const { width, height } = renderer.size();
    glide(renderer, zoomAt(renderer.camera, factor, width / 2, height / 2));
  }

  return (
    <div className="cone-map">
      <div
        className={hovered < 0 ? "cone-canvas" : "cone-canvas is-over-node"}
        ref={place}
        role="img"
        data-ready={isReady}
        data-nodes={nodes.length}
        aria-label={`Map of ${nodes.length} variables; the table has the same`}
      />
      <div className="cone-bands" ref={labels} aria-hidden="true" />
      {!isReady && <Loading what={`Placing ${nodes.length.toLocaleString("en-US")} variables`} />}
      <div className="cone-zoom" role="group" aria-label="Zoom">
        <button type="button" className="button" aria-label="Zoom in" onClick={() => zoom(STEP)}>
          +
        </button>
        <button
          type="button"
          className="button"
          aria-label="Zoom out"
          onClick={() => zoom(1 / STEP)}
        >
          {"\u2212"}
        </button>
        <button
          type="button"
          className="button"
          onClick={() => drawn.current && glide(drawn.current.renderer, WHOLE)}
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

function marksOf(
  scene: Scene,
  hovered: number,
  chosen: Pick<MapProps, "selected" | "path">,
): Marks {
  const slot = (node: number) => scene.slotOf.get(node) ?? -1;
  return {
    hovered: slot(hovered),
    selected: slot(chosen.selected),
    path: chosen.path.map(slot).filter((one) => one >= 0),
  };
}

/** Names of the layers at the left edge, at the height of their rows. */
function nameBands(scene: Scene, labels: HTMLElement | null): void {
  labels?.replaceChildren(
    ...scene.bands.map((band) => {
      const label = document.createElement("span");
      label.textContent = band.name;
      return label;
    }),
  );
}

function moveBands(drawn: Drawn | null, labels: HTMLElement | null): void {
  if (!drawn || !labels) return;
  const { height } = drawn.renderer.size();
  const { scaleY, shiftY } = drawn.renderer.transform();
  let last = -20;
  for (const [at, band] of drawn.scene.bands.entries()) {
    const label = labels.children[at] as HTMLElement | undefined;
    if (!label) continue;
    const middle = ((band.top + band.bottom - 1) / 2) * scaleY + shiftY;
    // Names that would cover each other are left out until there is room.
    const isShown = middle > 6 && middle < height - 6 && middle - last > 13;
    if (isShown) last = middle;
    label.hidden = !isShown;
    label.style.transform = `translateY(${Math.round(middle)}px)`;
  }
}
