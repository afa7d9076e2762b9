import { useMemo } from "react";
import { useApi } from "../../api/use-api";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { type Column, Table } from "../../components/table";
import { Tag, type Tone } from "../../components/tag";
import { Select } from "../../components/toolbar";
import { CopyCommand } from "../../graph/copy-button";
import "../../graph/graph.css";
import { optionsOf, paramsOf, queryOf, type Scenario, scenarioOf } from "../../graph/scenario";
import { ScenarioBar } from "../../graph/scenario-bar";
import { percent } from "../../graph/share-text";
import type { Debt, DebtRow, Variable } from "../../graph/types";
import { VariableName } from "../../graph/variable-name";
import { go, href, replace, useRoute } from "../../shell/route";
import { classOf, DebtMap } from "./map";
import { RootPanel } from "./root-panel";

const UNRESOLVED = ["missing", "assumed"];

export default function DebtPage() {
  const route = useRoute();
  const [root] = route.segments;
  const scenario = scenarioOf(route.params);
  const target = route.params.get("target") ?? "";
  // A variance is that of a target's value, which a scenario gives.
  const by =
    route.params.get("by") === "variance" && target && scenario.preset ? "variance" : "dependents";
  const all = route.params.get("all") === "true";
  const address = (
    name: string,
    next: Scenario,
    shown: { target?: string; by?: string; all?: boolean },
  ) =>
    href("debt", name ? [name] : [], { ...paramsOf(next), target, by, all: all || null, ...shown });
  const debt = useApi<Debt>("root-debt", { ...queryOf(scenario), by, target });
  const targets = useApi<readonly Variable[]>("variables", { targets: true });
  const known = targets.state === "error" ? [] : (targets.data ?? []);
  return (
    <>
      <PageHead
        title="Root debt"
        about="Inputs that nothing computes: what is missing or assumed, and how much rests on it. Pick one to see what it would take."
      >
        <CopyCommand
          command={`assay root-debt --by ${by}${target ? ` --target ${target}` : ""} ${optionsOf(scenario)}`.trim()}
        />
      </PageHead>
      <ScenarioBar
        scenario={scenario}
        change={(next) => go(address(root ?? "", next, {}))}
        none="none: all roots of the model"
      >
        <Select
          label="Roots of"
          value={target}
          options={[
            ["", "the whole model"],
            ...known.map((one) => [one.name, one.meaning] as const),
          ]}
          choose={(chosen) => go(address(root ?? "", scenario, { target: chosen }))}
        />
        <Select
          label="Sized by"
          value={by}
          options={[
            ["dependents", "relations that depend on it"],
            ...(target && scenario.preset
              ? [["variance", "share of the target's variance"] as const]
              : []),
          ]}
          choose={(chosen) => go(address(root ?? "", scenario, { by: chosen }))}
        />
        {scenario.preset && (
          <Select
            label="Show"
            value={String(all)}
            options={[
              ["false", "missing and assumed"],
              ["true", "every root"],
            ]}
            choose={(chosen) => go(address(root ?? "", scenario, { all: chosen === "true" }))}
          />
        )}
      </ScenarioBar>
      <div className="debt-columns">
        <Shown of={debt} what={by === "variance" ? "Sharing out the variance" : "Ranking roots"}>
          {(found) => (
            <Ranking
              debt={found}
              isAll={all || !scenario.preset}
              hasScenario={scenario.preset !== ""}
              chosen={root ?? ""}
              choose={(name) => replace(address(name, scenario, {}))}
            />
          )}
        </Shown>
        {root && <RootPanel name={root} scenario={scenario} target={target} />}
      </div>
    </>
  );
}

function Ranking(props: {
  readonly debt: Debt;
  readonly isAll: boolean;
  readonly hasScenario: boolean;
  readonly chosen: string;
  readonly choose: (name: string) => void;
}) {
  const { debt, hasScenario } = props;
  const rows = useMemo(
    () =>
      debt.rows.filter((row) => props.isAll || row.given.some((kind) => UNRESOLVED.includes(kind))),
    [debt, props.isAll],
  );
  if (rows.length === 0) {
    return (
      <Empty title="Nothing is missing or assumed">
        Every root that is needed has a value from a specification, a measurement or a publication.
      </Empty>
    );
  }
  const columns: readonly Column<DebtRow>[] = [
    {
      name: "name",
      title: "Root",
      key: (row) => row.name,
      cell: (row) => (
        <button type="button" className="link-button mono" onClick={() => props.choose(row.name)}>
          <VariableName name={row.name} />
        </button>
      ),
    },
    { name: "meaning", title: "Meaning", cell: (row) => row.meaning },
    {
      name: "state",
      title: hasScenario ? "Value" : "Boundary",
      key: (row) => stateOf(row, hasScenario),
      cell: (row) => (
        <Tag tone={toneOf(stateOf(row, hasScenario))}>{stateOf(row, hasScenario)}</Tag>
      ),
    },
    {
      name: "dependents",
      title: "Relations",
      isNumber: true,
      key: (row) => row.dependents,
      cell: (row) => row.dependents.toLocaleString("en-US"),
    },
    ...(debt.by === "variance"
      ? [
          {
            name: "variance",
            title: "Variance",
            isNumber: true,
            key: (row: DebtRow) => row.variance_share,
            cell: (row: DebtRow) =>
              row.variance_share === null ? row.note : percent(row.variance_share),
          },
        ]
      : []),
  ];
  return (
    <div className="stack">
      <DebtMap
        rows={rows}
        by={debt.by}
        stateOf={(row) => stateOf(row, hasScenario)}
        chosen={props.chosen}
        choose={props.choose}
      />
      <p className="small muted">
        {rows.length} of {debt.rows.length} roots.{" "}
        {debt.by === "variance"
          ? "Area: share of the target's variance (total-order Sobol index)."
          : "Area: relations downstream."}
      </p>
      <Legend states={rows.map((row) => stateOf(row, hasScenario))} />
      {debt.degradations.length > 0 && (
        <details className="small muted">
          <summary>{debt.degradations.length} notes on the sampling</summary>
          <ul className="plain-list">
            {debt.degradations.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      )}
      <Table
        label="Roots"
        columns={columns}
        rows={rows}
        rowKey={(row) => row.name}
        limit={25}
        isStacked
      />
    </div>
  );
}

/** The colors of the map, with the states that each stands for. */
function Legend(props: { readonly states: readonly string[] }) {
  const groups = new Map<string, Set<string>>();
  for (const state of props.states) {
    const color = classOf(state);
    const found = groups.get(color) ?? groups.set(color, new Set()).get(color)!;
    found.add(state);
  }
  return (
    <ul className="debt-legend small muted" aria-label="Colors of the map">
      {[...groups].map(([color, states]) => (
        <li key={color} className={`is-${color}`}>
          {[...states].join(", ")}
        </li>
      ))}
    </ul>
  );
}

/** How a root stands: by its value in the scenario, else by why the model ends there. */
function stateOf(row: DebtRow, hasScenario: boolean): string {
  return hasScenario ? row.given.join(", ") : row.boundary;
}

function toneOf(state: string): Tone {
  if (state.includes("missing") || state === "needs-source") return "missing";
  if (state.includes("assumed") || state === "decompose") return "warn";
  return state === "scenario" || state === "stated" ? "accent" : "plain";
}
