import { useApi } from "../../api/use-api";
import { PageHead } from "../../components/page-head";
import { Shown } from "../../components/states";
import { type Column, Table } from "../../components/table";
import { unitText } from "../../design/readable";
import { CopyCommand } from "../../graph/copy-button";
import "../../graph/graph.css";
import { optionsOf, paramsOf, queryOf, type Scenario, scenarioOf } from "../../graph/scenario";
import { ScenarioBar } from "../../graph/scenario-bar";
import type { Walk, WalkStep } from "../../graph/types";
import { VariableName } from "../../graph/variable-name";
import { VariablePicker } from "../../graph/variable-picker";
import { go, href, useRoute } from "../../shell/route";

/** From one end of the stack to the other, where nothing is asked for. */
const START = "nuclear.quarks.up";
const TARGET = "econ.cost.per_token";

export default function WalkPage() {
  const route = useRoute();
  const [start = START, target = TARGET] = route.segments;
  const scenario = scenarioOf(route.params);
  const open = (from: string, to: string, next: Scenario) =>
    go(href("walk", [from, to], paramsOf(next)));
  const walk = useApi<Walk>(`walk/${start}/${target}`, queryOf(scenario));
  return (
    <>
      <PageHead
        title="Walk"
        about="The relations from one variable to another: a step is the per cent by which a variable follows one per cent of the one before it."
      >
        <CopyCommand command={`assay walk ${start} ${target} ${optionsOf(scenario)}`.trim()} />
      </PageHead>
      <ScenarioBar
        scenario={scenario}
        change={(next) => open(start, target, next)}
        none="none: an H100 and all that lies below it"
      >
        <VariablePicker
          label="From"
          value={start}
          choose={(name) => open(name, target, scenario)}
        />
        <VariablePicker label="To" value={target} choose={(name) => open(start, name, scenario)} />
      </ScenarioBar>
      <Shown of={walk} what="Walking">
        {(answer) => <Steps walk={answer} scenario={scenario} />}
      </Shown>
    </>
  );
}

function Steps(props: { readonly walk: Walk; readonly scenario: Scenario }) {
  const { walk, scenario } = props;
  const columns: readonly Column<WalkStep>[] = [
    { name: "layer", title: "Layer", cell: (step) => step.layer },
    {
      name: "variable",
      title: "Variable",
      cell: (step) => (
        <a className="mono" href={href("cone", [step.variable], paramsOf(scenario))}>
          <VariableName name={step.variable} />
        </a>
      ),
    },
    { name: "meaning", title: "Meaning", cell: (step) => step.meaning },
    {
      name: "value",
      title: "Value",
      isNumber: true,
      cell: (step) =>
        step.value === null ? "" : `${Number(step.value.toPrecision(4))} ${unitText(step.unit)}`,
    },
    { name: "step", title: "Step", isNumber: true, cell: (step) => percentOf(step.elasticity) },
    { name: "carried", title: "Carried", isNumber: true, cell: (step) => percentOf(step.carried) },
    {
      name: "states",
      title: "Relation",
      cell: (step) => <span className="mono small">{step.states ?? ""}</span>,
    },
  ];
  return (
    <div className="stack">
      <p>
        {walk.steps.length - 1} relations through {walk.layers.join(", ")}: one per cent of{" "}
        <VariableName name={walk.from} /> is {percentOf(walk.elasticity)} per cent of{" "}
        <VariableName name={walk.to} /> by this way.
      </p>
      <Table
        label="Steps"
        columns={columns}
        rows={walk.steps}
        rowKey={(step) => step.variable}
        isStacked
      />
      {walk.notes.length > 0 && (
        <details className="small muted">
          <summary>{walk.notes.length} notes</summary>
          <ul className="plain-list">
            {walk.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function percentOf(elasticity: number | null): string {
  return elasticity === null ? "" : Number(elasticity.toPrecision(2)).toString();
}
