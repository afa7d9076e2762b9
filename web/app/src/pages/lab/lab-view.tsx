import { useCallback, useMemo, useRef, useState } from "react";
import { PageHead } from "../../components/page-head";
import { ErrorState, Loading } from "../../components/states";
import { type Tab, Tabs } from "../../components/tabs";
import type { Graph } from "../../tape/graph";
import { type Interval, sampleIntervals } from "../../tape/intervals";
import type { Model } from "../../tape/model";
import type { Selection } from "../../tape/scenario";
import { Choices } from "./choices";
import { compute } from "./compute";
import { Heroes } from "./heroes";
import { Inputs } from "./inputs";
import { meta } from "./meta";
import { Outputs } from "./outputs";
import { Pareto } from "./pareto";
import { type Joined, useScenarios } from "./scenario-data";
import { Scenarios } from "./scenarios";
import { Sharing } from "./sharing";
import { useSliced } from "./sliced";
import { Solve } from "./solve";
import type { LabState } from "./state";
import { Tornado } from "./tornado";
import type { Intervals, LabData, Resolved, Result } from "./types";
import { Verdicts } from "./verdicts";

const TABS: readonly Tab[] = [
  { name: "outputs", title: "Outputs" },
  { name: "tornado", title: "Tornado" },
  { name: "pareto", title: "Pareto" },
  { name: "solve", title: "Solve for" },
];

export function LabView(props: {
  readonly model: Model;
  readonly data: LabData;
  readonly state: LabState;
  readonly change: (next: Partial<LabState>) => void;
}) {
  const { model, data, state, change } = props;
  const { graph } = model;
  const [tab, setTab] = useState("outputs");
  const shownNames = useMemo(() => data.headings.flatMap(({ variables }) => variables), [data]);
  const extra = state.target;
  const targets = useMemo(() => {
    const names = new Set(shownNames);
    for (const preset of data.presets) for (const name of preset.targets) names.add(name);
    if (extra !== null) names.add(extra);
    return [...names].filter((name) => graph.position.has(name)).map((name) => graph.find(name));
  }, [graph, data, shownNames, extra]);
  const joined = useScenarios(state.selections);
  const resolved = useResolved(model, joined, state.selections, targets);
  const active = resolved[state.active];
  const target = focusOf(graph, state, active.result);
  // There are at most four scenarios; hooks are called in the same order every time.
  const intervals = [
    useIntervals(resolved[0]?.result ?? null, targets),
    useIntervals(resolved[1]?.result ?? null, targets),
    useIntervals(resolved[2]?.result ?? null, targets),
    useIntervals(resolved[3]?.result ?? null, targets),
  ];
  const base = useBase(model, joined[state.active], active, targets);
  const setSelection = (selection: Selection) =>
    change({
      selections: state.selections.map((one, at) => (at === state.active ? selection : one)),
    });
  const { result } = active;
  return (
    <>
      <PageHead title={meta.title} about={meta.about}>
        <Sharing
          graph={graph}
          data={data}
          state={state}
          target={target}
          change={change}
          active={active}
        />
      </PageHead>
      <Scenarios data={data} state={state} resolved={resolved} change={change} />
      <div className="lab">
        <div className="lab-side stack">
          <Choices
            data={data}
            graph={graph}
            selection={active.selection}
            result={result}
            choose={setSelection}
          />
          {result && (
            <Inputs
              graph={graph}
              data={data}
              result={result}
              base={base}
              target={target}
              choose={setSelection}
            />
          )}
        </div>
        <div className="lab-main stack">
          {active.error && (
            <ErrorState error={active.error} title="This scenario cannot be resolved" />
          )}
          {result === null && active.error === null && <Loading what="Joining the scenario" />}
          <Heroes graph={graph} resolved={resolved} intervals={intervals} target={target} />
          {result && <Verdicts graph={graph} result={result} base={base} />}
          <Tabs label="Views of the scenario" tabs={TABS} chosen={tab} choose={setTab}>
            {tab === "outputs" && (
              <Outputs
                graph={graph}
                data={data}
                resolved={resolved}
                intervals={intervals}
                target={target}
                choose={(name) => change({ target: name })}
              />
            )}
            {tab === "tornado" && result && (
              <Tornado graph={graph} result={result} target={target} />
            )}
            {tab === "pareto" && result && (
              <Pareto graph={graph} result={result} target={target} targets={targets} />
            )}
            {tab === "solve" && result && (
              <Solve graph={graph} result={result} target={target} choose={setSelection} />
            )}
          </Tabs>
        </div>
      </div>
    </>
  );
}

/** Every scenario resolved; one that did not change is not resolved again. */
function useResolved(
  model: Model,
  joined: readonly Joined[],
  selections: readonly Selection[],
  targets: readonly number[],
): Resolved[] {
  // biome-ignore lint/correctness/useExhaustiveDependencies: other outputs are other results.
  const known = useMemo(() => new WeakMap<Selection, Resolved>(), [model, targets]);
  const shown = useRef<Resolved[]>([]);
  shown.current = selections.map((selection, place) => {
    const data = joined[place];
    // While the server joins the entries of a choice, what was shown stays.
    if (data === undefined) {
      return { selection, result: shown.current[place]?.result ?? null, error: null };
    }
    let found = known.get(selection);
    if (!found) {
      found = resolve(model, data, selection, targets);
      known.set(selection, found);
    }
    return found;
  });
  return shown.current;
}

function resolve(
  model: Model,
  data: Exclude<Joined, undefined>,
  selection: Selection,
  targets: readonly number[],
): Resolved {
  if (data instanceof Error) return { selection, result: null, error: data };
  try {
    return { selection, result: compute(model, data, selection, targets), error: null };
  } catch (error) {
    return { selection, result: null, error: error as Error };
  }
}

/** The scenario without the inputs that were changed: what sliders start from. */
function useBase(
  model: Model,
  joined: Joined,
  { selection, result }: Resolved,
  targets: readonly number[],
): Result | null {
  // biome-ignore lint/correctness/useExhaustiveDependencies: other outputs are other results.
  const known = useMemo(() => new WeakMap<object, Result>(), [model, targets]);
  if (joined === undefined || joined instanceof Error) return null;
  const found = known.get(joined);
  if (found) return found;
  // Nothing is changed when the page opens: what is shown is the base, and is not resolved twice.
  const isUnchanged = result !== null && Object.keys(selection.assign).length === 0;
  const base = isUnchanged ? result : compute(model, joined, { ...selection, assign: {} }, targets);
  known.set(joined, base);
  return base;
}

function useIntervals(result: Result | null, targets: readonly number[]): Intervals {
  const { result: found, isStale } = useSliced<Map<number, Interval>>(
    useCallback(() => (result === null ? null : steps(result, targets)), [result, targets]),
  );
  return { found, isStale };
}

function* steps(
  { model, scenario, point }: Result,
  targets: readonly number[],
): Generator<void, Map<number, Interval>> {
  const found = yield* sampleIntervals(model, scenario, point, targets);
  const intervals = new Map<number, Interval>();
  for (const [row, index] of targets.entries()) {
    const interval = found[row];
    if (interval !== undefined) intervals.set(index, interval);
  }
  return intervals;
}

/** The output in focus: the chosen one, else a cost, else the first that the scenario is about. */
function focusOf(graph: Graph, state: LabState, result: Result | null): number {
  if (state.target !== null) return graph.find(state.target);
  const about = result?.scenario.targets.map(({ variable }) => variable) ?? [];
  const costs = ["econ.cost.per_output_token", "econ.cost.per_token"];
  const name = costs.find((cost) => about.includes(cost)) ?? about[0] ?? costs[0];
  return graph.find(name);
}
