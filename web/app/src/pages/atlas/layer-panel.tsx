import { useState } from "react";
import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Shown } from "../../components/states";
import { type Column, Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { paramsOf, type Scenario } from "../../graph/scenario";
import { percent } from "../../graph/share-text";
import type { Atlas, Crossing, Layer, Variable } from "../../graph/types";
import { href } from "../../shell/route";

/** One layer: counts, coverage, what crosses its borders, and its variables. */
export function LayerPanel(props: {
  readonly layer: Layer;
  readonly atlas: Atlas;
  readonly scenario: Scenario;
}) {
  const { layer, atlas, scenario } = props;
  const pressed = atlas.pressure?.layers.find((one) => one.name === layer.name);
  const roots = Object.values(layer.roots).reduce((sum, count) => sum + count, 0);
  return (
    <div className="stack atlas-panel" aria-live="polite">
      <Card title={layer.name} about={layer.meaning}>
        <dl className="atlas-counts">
          <Count title="variables" value={layer.variables + layer.constants} />
          <Count title="relations" value={layer.relations} />
          <Count title="inputs" value={roots} />
          <Count title="constraints" value={layer.constraints} />
        </dl>
        <Coverage layer={layer} />
        {roots > 0 && (
          <p className="small">
            {Object.entries(layer.roots).map(([boundary, count]) => (
              <span key={boundary} className="atlas-boundary">
                <Tag tone={boundary === "needs-source" ? "missing" : "plain"}>
                  {count} {boundary}
                </Tag>
              </span>
            ))}
          </p>
        )}
        {pressed && (
          <p className="small">
            {pressed.variables === 0
              ? `${atlas.pressure!.target} does not depend on this layer.`
              : `${atlas.pressure!.target} depends on ${pressed.variables} variables here, ${pressed.roots} of them inputs${
                  pressed.missing ? `, ${pressed.missing} without a value in the scenario` : ""
                }.`}
          </p>
        )}
        {layer.targets.length > 0 && (
          <p className="small">
            Targets:{" "}
            {layer.targets.map((name, at) => (
              <span key={name}>
                {at > 0 && ", "}
                <a className="mono" href={href("receipt", [name], paramsOf(scenario))}>
                  {name}
                </a>
              </span>
            ))}
          </p>
        )}
      </Card>
      <Borders layer={layer} crossings={(atlas.pressure ?? atlas).crossings} />
      <Variables layer={layer} scenario={scenario} />
    </div>
  );
}

function Count(props: { readonly title: string; readonly value: number }) {
  return (
    <div>
      <dt className="figure-label">{props.title}</dt>
      <dd className="number">{props.value.toLocaleString("en-US")}</dd>
    </div>
  );
}

const KINDS = ["cited", "fitted", "definition", "unsourced"] as const;

/** How much of a layer's relations has a source. */
function Coverage(props: { readonly layer: Layer }) {
  const { references, relations } = props.layer;
  if (relations === 0) return <p className="small muted">This layer has no relations.</p>;
  return (
    <>
      <div className="coverage" aria-hidden="true">
        {KINDS.map((kind) => (
          <span
            key={kind}
            className={`is-${kind}`}
            style={{ width: `${(100 * (references[kind] ?? 0)) / relations}%` }}
          />
        ))}
      </div>
      <p className="small muted">
        Relations:{" "}
        {KINDS.filter((kind) => references[kind])
          .map((kind) => `${percent(references[kind]! / relations, 0)} ${kind}`)
          .join(", ")}
      </p>
    </>
  );
}

function Borders(props: { readonly layer: Layer; readonly crossings: readonly Crossing[] }) {
  const { layer, crossings } = props;
  const into = crossings.filter((one) => one.target === layer.name);
  const out = crossings.filter((one) => one.source === layer.name);
  return (
    <Card title="Across its borders" about="edges between layers, and the variables on them">
      {into.length + out.length === 0 ? (
        <p className="muted">Nothing crosses its borders.</p>
      ) : (
        <div className="borders">
          <Side title="Comes in from" of={into} name={(one) => one.source} />
          <Side title="Goes out to" of={out} name={(one) => one.target} />
        </div>
      )}
    </Card>
  );
}

function Side(props: {
  readonly title: string;
  readonly of: readonly Crossing[];
  readonly name: (crossing: Crossing) => string;
}) {
  if (props.of.length === 0) return null;
  return (
    <div>
      <h3>{props.title}</h3>
      <ul>
        {props.of.map((one) => (
          <li key={props.name(one)}>
            <details>
              <summary>
                {props.name(one)} <span className="muted small number">{one.edges}</span>
              </summary>
              <p className="mono small">{one.variables.join(", ")}</p>
            </details>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Variables(props: { readonly layer: Layer; readonly scenario: Scenario }) {
  const [isOpen, setOpen] = useState(false);
  const found = useApi<readonly Variable[]>(isOpen ? "variables" : null, {
    scope: props.layer.name,
  });
  const columns: readonly Column<Variable>[] = [
    {
      name: "name",
      title: "Variable",
      key: (one) => one.name,
      cell: (one) => (
        <a className="mono" href={href("cone", [one.name], paramsOf(props.scenario))}>
          {one.name}
        </a>
      ),
    },
    { name: "role", title: "Role", key: (one) => one.role, cell: (one) => one.role },
    { name: "unit", title: "Unit", cell: (one) => one.display },
    { name: "meaning", title: "Meaning", cell: (one) => one.meaning },
  ];
  return (
    <details className="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Variables of this layer</summary>
      {isOpen && (
        <Shown of={found} what="Loading variables">
          {(rows) => (
            <Table
              label={`Variables of ${props.layer.name}`}
              columns={columns}
              rows={rows}
              rowKey={(one) => one.name}
              limit={40}
            />
          )}
        </Shown>
      )}
    </details>
  );
}
