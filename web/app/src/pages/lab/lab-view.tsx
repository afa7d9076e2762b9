import { useCallback, useMemo, useState } from "react";
import { PageHead } from "../../components/page-head";
import { ErrorState } from "../../components/states";
import { type Tab, Tabs } from "../../components/tabs";
import type { Graph } from "../../tape/graph";
import { Resolver } from "../../tape/resolver";
import { type Interval, sampleIntervals } from "../../tape/sampling";
import type { Selection } from "../../tape/scenario";
import { Choices } from "./choices";
import { compute } from "./compute";
import { Heroes } from "./heroes";
import { Inputs } from "./inputs";
import { meta } from "./meta";
import { Outputs } from "./outputs";
import { Pareto } from "./pareto";
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
  readonly graph: Graph;
  readonly data: LabData;
  readonly state: LabState;
  readonly change: (next: Partial<LabState>) => void;
}) {
  const { graph, data, state, change } = props;
  const [tab, setTab] = useState("outputs");
  const shownNames = useMemo(() => data.outputs.flatMap(({ variables }) => variables), [data]);
  const extra = state.target;
  const targets = useMemo(() => {
    const names = new Set(shownNames);
    for (const preset of data.presets)
      for (const { variable } of preset.targets) names.add(variable);
    if (extra !== null) names.add(extra);
    return [...names].filter((name) => graph.position.has(name)).map((name) => graph.find(name));
  }, [graph, data, shownNames, extra]);
  const resolved = useResolved(graph, data, state.selections, targets);
  const active = resolved[state.active];
  const target = focusOf(graph, state, active.result);
  // There are at most four scenarios; hooks are called in the same order every time.
  const intervals = [
    useIntervals(graph, resolved[0]?.result ?? null, targets),
    useIntervals(graph, resolved[1]?.result ?? null, targets),
    useIntervals(graph, resolved[2]?.result ?? null, targets),
    useIntervals(graph, resolved[3]?.result ?? null, targets),
  ];
  const base = useBase(graph, data, active, targets);
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
  graph: Graph,
  data: LabData,
  selections: readonly Selection[],
  targets: readonly number[],
): Resolved[] {
  // biome-ignore lint/correctness/useExhaustiveDependencies: other data or outputs are other results.
  const known = useMemo(() => new WeakMap<Selection, Resolved>(), [graph, data, targets]);
  return selections.map((selection) => {
    let found = known.get(selection);
    if (!found) {
      try {
        found = { selection, result: compute(graph, data, selection, targets), error: null };
      } catch (error) {
        found = { selection, result: null, error: error as Error };
      }
      known.set(selection, found);
    }
    return found;
  });
}

/** The scenario without the inputs that were changed: what sliders start from. */
function useBase(
  graph: Graph,
  data: LabData,
  { selection, result }: Resolved,
  targets: readonly number[],
): Result | null {
  // biome-ignore lint/correctness/useExhaustiveDependencies: other data or outputs are other results.
  const known = useMemo(() => new Map<string, Result>(), [graph, data, targets]);
  const key = JSON.stringify([selection.preset, selection.with, selection.variants]);
  const found = known.get(key);
  if (found) return found;
  try {
    // Nothing is changed when the page opens: what is shown is the base, and is not resolved twice.
    const isUnchanged = result !== null && Object.keys(selection.assign).length === 0;
    const base = isUnchanged ? result : compute(graph, data, { ...selection, assign: {} }, targets);
    known.set(key, base);
    return base;
  } catch {
    // The selection itself fails in the same way, and says so.
    return null;
  }
}

function useIntervals(graph: Graph, result: Result | null, targets: readonly number[]): Intervals {
  const { result: found, isStale } = useSliced<Map<number, Interval>>(
    useCallback(
      () => (result === null ? null : steps(graph, result, targets)),
      [graph, result, targets],
    ),
  );
  return { found, isStale };
}

function* steps(
  graph: Graph,
  result: Result,
  targets: readonly number[],
): Generator<void, Map<number, Interval>> {
  const known = targets.filter((index) => result.outputs.get(index)?.value !== undefined);
  const resolver = new Resolver(graph);
  const found = yield* sampleIntervals(resolver, result.scenario, result.point, known);
  const intervals = new Map<number, Interval>();
  for (const [row, index] of known.entries()) {
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
