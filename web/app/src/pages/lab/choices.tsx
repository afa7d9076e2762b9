// What a scenario is about: preset, catalog entries, and the layout on GPUs.

import { Card } from "../../components/card";
import { Select } from "../../components/toolbar";
import type { Graph } from "../../tape/graph";
import type { Selection } from "../../tape/scenario";
import type { LabData, Result } from "./types";

/** Groups of the catalog that people ask about first. */
const FIRST: readonly (readonly [group: string, label: string])[] = [
  ["models", "Model"],
  ["accelerators", "Accelerator"],
  ["engines", "Engine"],
];
/** Groups that stand behind a click; others can be named in a link. */
const FURTHER: readonly (readonly [group: string, label: string])[] = [
  ["sites", "Site"],
  ["tariffs", "Tariff"],
  ["grids", "Grid"],
  ["finance", "Finance"],
  ["rents", "Rent"],
  ["manufacturing", "Manufacturing"],
  ["supplies", "Supply"],
];

export function Choices(props: {
  readonly data: LabData;
  readonly graph: Graph;
  readonly selection: Selection;
  readonly result: Result | null;
  readonly choose: (selection: Selection) => void;
}) {
  const { data, selection, result, choose } = props;
  const preset = data.presets.find(({ name }) => name === selection.preset);
  const presets = data.presets.map(({ name }) => [name, name.replaceAll("_", " ")] as const);
  return (
    <Card title="Scenario" about={preset?.description}>
      <div className="lab-choices">
        <Select
          label="Preset"
          value={selection.preset}
          options={selection.preset === "" ? [["", "none"], ...presets] : presets}
          choose={(name) => choose({ preset: name, with: [], assign: {}, variants: {} })}
        />
        {FIRST.map(([group, label]) => (
          <GroupSelect key={group} {...props} group={group} label={label} />
        ))}
      </div>
      {result && <Layout {...props} result={result} />}
      <details className="lab-further">
        <summary>Site, tariff, grid, finance, manufacturing</summary>
        <div className="lab-choices">
          {FURTHER.map(([group, label]) => (
            <GroupSelect key={group} {...props} group={group} label={label} />
          ))}
        </div>
      </details>
    </Card>
  );
}

function GroupSelect(props: {
  readonly data: LabData;
  readonly selection: Selection;
  readonly result: Result | null;
  readonly choose: (selection: Selection) => void;
  readonly group: string;
  readonly label: string;
}) {
  const { data, selection, group } = props;
  const included = props.result?.scenario.included.filter((part) => part.group === group).at(-1);
  const entries = data.groups[group] ?? [];
  const chosen =
    included?.path ?? selection.with.find((path) => path.startsWith(`${group}/`)) ?? "";
  const options = entries.map(([path, title]) => [path, title || path.split("/")[1]!] as const);
  return (
    <Select
      label={props.label}
      value={chosen}
      options={chosen === "" ? [["", "none"], ...options] : options}
      choose={(path) =>
        props.choose({
          ...selection,
          with: [...selection.with.filter((one) => !one.startsWith(`${group}/`)), path],
        })
      }
    />
  );
}

/** Counts that place the model on GPUs, as choices of the numbers people use. */
function Layout(props: {
  readonly data: LabData;
  readonly graph: Graph;
  readonly selection: Selection;
  readonly result: Result;
  readonly choose: (selection: Selection) => void;
}) {
  const { graph, selection, result } = props;
  const names = props.data.layout.filter((name) => name in result.scenario.values);
  if (names.length === 0) return null;
  return (
    <>
      <h3 className="lab-sub">Parallel layout</h3>
      <div className="lab-layout">
        {names.map((name) => {
          const index = graph.find(name);
          const value = result.scenario.values[name].value;
          return (
            <Select
              key={name}
              label={name.slice(name.lastIndexOf(".") + 1).replaceAll("_", " ")}
              title={`${graph.variable(index).meaning} (${name})`}
              value={`${value}`}
              options={countsOf(graph, index, value).map((one) => [`${one}`, `${one}`])}
              choose={(text) =>
                props.choose({
                  ...selection,
                  assign: { ...selection.assign, [name]: { value: Number(text) } },
                })
              }
            />
          );
        })}
      </div>
    </>
  );
}

/** Whole numbers between narrow bounds, else powers of two. */
export function countsOf(graph: Graph, index: number, value: number): number[] {
  const [low, high] = [Math.max(graph.lower[index], 0), graph.upper[index]];
  const counts =
    high - low <= 8
      ? Array.from({ length: high - low + 1 }, (_, step) => low + step)
      : Array.from({ length: 13 }, (_, step) => 2 ** step);
  const inside = [...counts, value].filter((count) => low <= count && count <= high);
  return [...new Set(inside)].sort((one, other) => one - other);
}
