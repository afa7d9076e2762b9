import type { Atlas, Crossing } from "../../graph/types";

const ROW = 34;
const ARCS = 74;

/** Every layer as a slab: how much of the target's cone it holds, and what crosses its borders. */
export function Stack(props: {
  readonly atlas: Atlas;
  readonly chosen: string;
  readonly distance: number;
  readonly choose: (name: string) => void;
}) {
  const { layers, pressure } = props.atlas;
  const crossings = (pressure ?? props.atlas).crossings;
  const largest = Math.max(1, ...layers.map((layer) => size(props, layer.name).all));
  return (
    <div className="atlas-stack">
      <Arcs
        layers={layers.map((layer) => layer.name)}
        crossings={crossings}
        chosen={props.chosen}
      />
      <ol className="atlas-layers" aria-label="Layers from the site down to the transistor">
        {layers.map((layer) => {
          const { all, reached, fresh } = size(props, layer.name);
          return (
            <li key={layer.name} className={layer.name === props.chosen ? "is-chosen" : undefined}>
              <button
                type="button"
                aria-current={layer.name === props.chosen ? "true" : undefined}
                onClick={() => props.choose(layer.name)}
              >
                <span className="atlas-name">{layer.name}</span>
                <span className="atlas-bar" aria-hidden="true">
                  <span className="is-all" style={{ width: `${width(all, largest)}%` }} />
                  <span className="is-reached" style={{ width: `${width(reached, largest)}%` }} />
                  {fresh > 0 && (
                    <span className="is-fresh" style={{ width: `${width(reached, largest)}%` }} />
                  )}
                </span>
                <span className="number small">{pressure ? `${reached} of ${all}` : all}</span>
              </button>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

/** Layers differ by a factor of hundreds: bars follow the square root. */
function width(count: number, largest: number): number {
  return 100 * Math.sqrt(count / largest);
}

function size(
  props: { readonly atlas: Atlas; readonly distance: number },
  name: string,
): { readonly all: number; readonly reached: number; readonly fresh: number } {
  const layer = props.atlas.layers.find((one) => one.name === name);
  const all = (layer?.variables ?? 0) + (layer?.constants ?? 0);
  const pressed = props.atlas.pressure?.layers.find((one) => one.name === name);
  if (!pressed) return { all, reached: 0, fresh: 0 };
  const reached = pressed.by_distance
    .slice(0, props.distance + 1)
    .reduce((sum, one) => sum + one, 0);
  return { all, reached, fresh: pressed.by_distance[props.distance] ?? 0 };
}

/** Arcs from the chosen layer to those it exchanges variables with. */
function Arcs(props: {
  readonly layers: readonly string[];
  readonly crossings: readonly Crossing[];
  readonly chosen: string;
}) {
  const at = (name: string) => props.layers.indexOf(name) * ROW + ROW / 2;
  const near = props.crossings.filter(
    (one) => one.source === props.chosen || one.target === props.chosen,
  );
  const most = Math.max(1, ...near.map((one) => one.edges));
  return (
    <svg
      className="atlas-arcs"
      width={ARCS}
      height={props.layers.length * ROW}
      role="img"
      aria-label={`${near.length} borders of ${props.chosen} that variables cross`}
    >
      {near.map((one) => {
        const [start, end] = [at(one.source), at(one.target)];
        const reach = Math.min(ARCS - 6, 14 + Math.abs(end - start) / 9);
        return (
          <path
            key={`${one.source} ${one.target}`}
            className={one.target === props.chosen ? "is-in" : "is-out"}
            d={`M ${ARCS} ${start} C ${ARCS - reach} ${start}, ${ARCS - reach} ${end}, ${ARCS} ${end}`}
            strokeWidth={1 + 4 * Math.sqrt(one.edges / most)}
          >
            <title>{`${one.source} to ${one.target}: ${one.edges} edges`}</title>
          </path>
        );
      })}
    </svg>
  );
}
