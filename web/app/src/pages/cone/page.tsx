import { useDeferredValue, useEffect, useMemo, useState } from "react";
import { useApi } from "../../api/use-api";
import { CopyCommand as CommandLine } from "../../components/copy";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { Tabs } from "../../components/tabs";
import { between, type ConeGraph, inView, pathBetween, readGraph, within } from "../../graph/cone";
import { CopyCommand } from "../../graph/copy-button";
import "../../graph/graph.css";
import { overFrames } from "../../graph/layout";
import { optionsOf, paramsOf, queryOf, type Scenario, scenarioOf } from "../../graph/scenario";
import { ScenarioBar } from "../../graph/scenario-bar";
import type { Cone, Line, Receipt } from "../../graph/types";
import { VariableDetail } from "../../graph/variable-detail";
import { VariablePicker } from "../../graph/variable-picker";
import { go, href, replace, useRoute } from "../../shell/route";
import { Controls } from "./controls";
import { ConeMap } from "./map";
import { ConeTable } from "./table";
import { Trace } from "./trace";

const FIRST_DEPTH = 3;

/** What the address of the page says beside the variable and the scenario. */
interface View {
  readonly view: string;
  readonly depth: string;
  readonly node: string;
  readonly from: string;
  readonly to: string;
  readonly hide: string;
}

export default function ConePage() {
  const route = useRoute();
  const [target] = route.segments;
  const scenario = scenarioOf(route.params);
  const get = (name: string) => route.params.get(name) ?? "";
  const view: View = {
    view: get("view") || "map",
    depth: get("depth") || String(FIRST_DEPTH),
    node: get("node"),
    from: get("from"),
    to: get("to"),
    hide: get("hide"),
  };
  const address = (name: string, next: Scenario, shown: Partial<View>) =>
    href("cone", [name], { ...paramsOf(next), ...view, ...shown });
  if (!target) {
    return (
      <>
        <PageHead title="Cone" about="Pick a variable to see everything that it depends on." />
        <VariablePicker
          label="Variable"
          placeholder="cost per token, step time, PUE"
          choose={(name) => go(address(name, scenario, {}))}
        />
      </>
    );
  }
  return (
    <Main
      key={target}
      target={target}
      scenario={scenario}
      view={view}
      open={(name, next) => go(address(name, next, { node: "", from: "", to: "" }))}
      show={(shown) => replace(address(target, scenario, shown))}
    />
  );
}

function Main(props: {
  readonly target: string;
  readonly scenario: Scenario;
  readonly view: View;
  readonly open: (target: string, scenario: Scenario) => void;
  readonly show: (view: Partial<View>) => void;
}) {
  const { target, scenario } = props;
  const cone = useApi<Cone>(`cone/${target}`, { brief: true });
  const receipt = useApi<Receipt>(`receipt/${target}`, queryOf(scenario));
  const graph = useGraph(cone.state === "ready" ? cone.data : null);
  return (
    <>
      <PageHead
        title={
          <>
            Cone of <span className="mono cone-title">{target}</span>
          </>
        }
        name={`Cone of ${target}`}
        about={graph ? describe(graph) : "Everything that it depends on."}
      >
        <a className="button" href={href("receipt", [target], paramsOf(scenario))}>
          Open the receipt
        </a>
        <CopyCommand command={`assay cone ${target}`} />
      </PageHead>
      <ScenarioBar
        scenario={scenario}
        change={(next) => props.open(target, next)}
        none="none: structure only"
      >
        <VariablePicker
          label="Variable"
          value={target}
          choose={(name) => props.open(name, scenario)}
        />
      </ScenarioBar>
      <Shown of={cone} what="Loading the cone">
        {() =>
          graph === null ? null : graph.variables.length === 1 ? (
            <Empty title="It depends on nothing">
              {target} is an input of the model: a scenario gives its value.{" "}
              <a href={href("debt", [target], paramsOf(scenario))}>What would resolve it</a>
            </Empty>
          ) : (
            <Explorer
              graph={graph}
              receipt={receipt.state === "ready" ? receipt.data : null}
              trouble={receipt.state === "error" ? receipt.error : null}
              {...props}
            />
          )
        }
      </Shown>
    </>
  );
}

/** The graph of a cone, read over several frames. */
function useGraph(cone: Cone | null): ConeGraph | null {
  const [graph, setGraph] = useState<ConeGraph | null>(null);
  useEffect(() => {
    if (!cone) return;
    const leave = new AbortController();
    overFrames(readGraph(cone), leave.signal).then(setGraph);
    return () => leave.abort();
  }, [cone]);
  return graph;
}

function describe(graph: ConeGraph): string {
  const roots = graph.variables.filter((one) => one.role === "root").length;
  const layers = new Set(graph.variables.map((one) => one.scope)).size;
  const count = (graph.variables.length - 1).toLocaleString("en-US");
  return `${count} variables in ${layers} layers, ${roots} of them inputs, at most ${Math.max(...graph.level)} relations deep.`;
}

function Explorer(props: {
  readonly target: string;
  readonly scenario: Scenario;
  readonly graph: ConeGraph;
  readonly receipt: Receipt | null;
  readonly trouble: Error | null;
  readonly view: View;
  readonly show: (view: Partial<View>) => void;
}) {
  const { graph, receipt, view, show, scenario } = props;
  const wanted =
    view.depth === "all" ? Number.POSITIVE_INFINITY : Number(view.depth) || FIRST_DEPTH;
  // The controls answer at once; what is in view follows in a task of its own.
  const depth = useDeferredValue(wanted);
  const [toggled, setToggled] = useState<ReadonlySet<number>>(new Set());
  const hidden = useMemo(() => new Set(view.hide.split(",").filter(Boolean)), [view.hide]);
  const lines = useMemo<ReadonlyMap<string, Line>>(
    () => new Map(receipt?.lines.map((line) => [line.name, line]) ?? []),
    [receipt],
  );
  const from = graph.index.get(view.from);
  const to = graph.index.get(view.to || props.target);
  const path = useMemo(
    () => (from === undefined || to === undefined ? [] : pathBetween(graph, from, to)),
    [graph, from, to],
  );
  const ways = useMemo(
    () => (from === undefined || to === undefined ? 0 : between(graph, from, to).size),
    [graph, from, to],
  );
  const opened = useMemo(() => {
    const found = within(graph, depth);
    // What was opened or closed by hand differs from the depth.
    for (const node of toggled) if (!found.delete(node)) found.add(node);
    for (const node of path) found.add(node);
    const chosen = graph.index.get(view.node);
    if (chosen !== undefined)
      for (const node of pathBetween(graph, chosen, graph.root).slice(1)) found.add(node);
    return found;
  }, [graph, depth, toggled, path, view.node]);
  const nodes = useMemo(() => inView(graph, opened, hidden), [graph, opened, hidden]);
  const selected = view.node || props.target;
  const missing = useMemo(() => missingBelow(receipt, selected), [receipt, selected]);

  function toggle(node: number): void {
    setToggled((now) => {
      const next = new Set(now);
      if (!next.delete(node)) next.add(node);
      return next;
    });
  }

  const at = graph.index.get(selected);
  return (
    <>
      <Controls
        graph={graph}
        depth={wanted}
        hidden={hidden}
        from={view.from}
        to={view.to}
        setDepth={(next) => {
          setToggled(new Set());
          show({ depth: next });
        }}
        setHidden={(next) => show({ hide: [...next].join(",") })}
        find={(name) => show({ node: name })}
        setPath={(next) => show(next)}
      />
      {view.from && (
        <PathLine
          graph={graph}
          path={path}
          ways={ways}
          select={(node) => show({ node })}
          clear={() => show({ from: "", to: "" })}
        />
      )}
      <div className="cone-columns">
        <Tabs
          label="Views of the cone"
          tabs={[
            { name: "map", title: "Map" },
            { name: "table", title: "Table" },
            { name: "trace", title: "Scenario trace" },
          ]}
          chosen={view.view}
          choose={(name) => show({ view: name })}
        >
          {view.view === "table" ? (
            <ConeTable
              graph={graph}
              nodes={nodes}
              lines={lines}
              opened={opened}
              select={(node) => show({ node })}
              toggle={toggle}
            />
          ) : view.view === "trace" ? (
            <Trace receipt={receipt} trouble={props.trouble} />
          ) : (
            <ConeMap
              graph={graph}
              nodes={nodes}
              lines={lines}
              opened={opened}
              path={path}
              selected={at ?? graph.root}
              select={(node) => show({ node: graph.variables[node]!.name })}
              toggle={toggle}
            />
          )}
        </Tabs>
        <aside className="card cone-aside">
          <VariableDetail
            name={selected}
            line={lines.get(selected) ?? null}
            scenario={scenario}
            validity={receipt?.validity ?? []}
            missing={missing}
          >
            <div className="detail-links">
              {at !== undefined && graph.inputs[at]!.length > 0 && (
                <button type="button" className="button" onClick={() => toggle(at)}>
                  {opened.has(at) ? "Collapse" : `Expand ${graph.inputs[at]!.length} inputs`}
                </button>
              )}
              {selected !== props.target && (
                <button
                  type="button"
                  className="button"
                  onClick={() => show({ from: selected, to: "" })}
                >
                  Path to the target
                </button>
              )}
            </div>
          </VariableDetail>
          {props.trouble && (
            <p className="small missing-names">No values: {props.trouble.message}</p>
          )}
        </aside>
      </div>
      <CommandLine command={`assay receipt ${props.target} ${optionsOf(scenario)}`} />
    </>
  );
}

/** Missing inputs that a variable needs, directly or not. */
function missingBelow(receipt: Receipt | null, name: string): string[] {
  if (!receipt || receipt.missing.length === 0) return [];
  const gaps = new Set(receipt.missing.map((gap) => gap.name));
  const lines = new Map(receipt.lines.map((line) => [line.name, line]));
  const seen = new Set([name]);
  const queue = [name];
  for (let at = 0; at < queue.length; at++) {
    for (const input of lines.get(queue[at]!)?.inputs ?? []) {
      if (seen.has(input.name)) continue;
      seen.add(input.name);
      queue.push(input.name);
    }
  }
  return queue.filter((one) => gaps.has(one));
}

function PathLine(props: {
  readonly graph: ConeGraph;
  readonly path: readonly number[];
  readonly ways: number;
  readonly select: (name: string) => void;
  readonly clear: () => void;
}) {
  const { graph, path } = props;
  return (
    <nav className="cone-path" aria-label="Path between two variables">
      {path.length === 0 ? (
        <p className="muted">No relation leads from one to the other.</p>
      ) : (
        <>
          <ol>
            {path.map((node) => {
              const { name } = graph.variables[node]!;
              return (
                <li key={name}>
                  <button type="button" className="mono" onClick={() => props.select(name)}>
                    {name}
                  </button>
                </li>
              );
            })}
          </ol>
          <p className="small muted">
            The shortest way, {path.length - 1} {path.length === 2 ? "relation" : "relations"};{" "}
            {props.ways} variables lie on some way.
          </p>
        </>
      )}
      <button type="button" className="button quiet" onClick={props.clear}>
        Clear the path
      </button>
    </nav>
  );
}
