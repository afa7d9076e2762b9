import { Select, Toolbar } from "../../components/toolbar";
import type { ConeGraph } from "../../graph/cone";
import { VariablePicker } from "../../graph/variable-picker";

const DEEPEST_STEP = 8;

/** Depth, search, layers and the ends of a path. */
export function Controls(props: {
  readonly graph: ConeGraph;
  readonly depth: number;
  readonly hidden: ReadonlySet<string>;
  readonly from: string;
  readonly to: string;
  readonly setDepth: (depth: string) => void;
  readonly setHidden: (hidden: ReadonlySet<string>) => void;
  readonly find: (name: string) => void;
  readonly setPath: (ends: { readonly from?: string; readonly to?: string }) => void;
}) {
  const { graph } = props;
  const deepest = Math.min(Math.max(...graph.distance), DEEPEST_STEP);
  const depths = Array.from({ length: deepest }, (_, at) => String(at + 1));
  const layers = new Map<string, number>();
  for (const variable of graph.variables)
    layers.set(variable.scope, (layers.get(variable.scope) ?? 0) + 1);
  return (
    <div className="cone-controls">
      <Toolbar label="What the cone shows">
        <Select
          label="Relations deep"
          value={props.depth === Number.POSITIVE_INFINITY ? "all" : String(props.depth)}
          options={[...depths.map((one) => [one, one] as const), ["all", "all of it"]]}
          choose={props.setDepth}
        />
        <VariablePicker label="Find in the cone" among={graph.variables} choose={props.find} />
        <VariablePicker
          label="Path from"
          placeholder="an input"
          among={graph.variables}
          value={props.from}
          choose={(from) => props.setPath({ from })}
        />
        <VariablePicker
          label="to"
          placeholder="the target"
          among={graph.variables}
          value={props.to}
          choose={(to) => props.setPath({ to })}
        />
        <details className="layer-filter">
          <summary className="button">
            Layers: {layers.size - props.hidden.size} of {layers.size}
          </summary>
          <fieldset>
            <legend className="unseen">Layers in view</legend>
            {[...layers].map(([name, count]) => (
              <label key={name}>
                <input
                  type="checkbox"
                  checked={!props.hidden.has(name)}
                  onChange={() => {
                    const next = new Set(props.hidden);
                    if (!next.delete(name)) next.add(name);
                    props.setHidden(next);
                  }}
                />
                {name} <span className="muted small number">{count}</span>
              </label>
            ))}
          </fieldset>
        </details>
      </Toolbar>
    </div>
  );
}
