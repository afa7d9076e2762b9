// One run: what came out, why, every experiment, the timeline, and the evidence.

import { useState } from "react";
import { post } from "../../api/client";
import { useApi } from "../../api/use-api";
import { Button } from "../../components/button";
import { Confirm } from "../../components/confirm";
import { Figure } from "../../components/figure";
import { PageHead } from "../../components/page-head";
import { ErrorState, Shown } from "../../components/states";
import { Tabs } from "../../components/tabs";
import { Tag } from "../../components/tag";
import { go, href } from "../../shell/route";
import { Evidence } from "./evidence";
import { Experiments } from "./experiments";
import { Journal } from "./journal";
import { Levers } from "./levers";
import { Overview } from "./overview";
import { TimelineView } from "./timeline-view";
import type { RunDetails } from "./types";
import { metricName, metricUnit, statusTone, verdictTone, when } from "./words";

const TABS = [
  { name: "overview", title: "Where time goes" },
  { name: "experiments", title: "Experiments" },
  { name: "levers", title: "Levers" },
  { name: "timeline", title: "Timeline" },
  { name: "evidence", title: "Evidence" },
  { name: "journal", title: "Journal" },
];

export function RunPage(props: { readonly run: string; readonly tab: string | undefined }) {
  const loaded = useApi<RunDetails>(`runs/${props.run}`);
  return (
    <Shown of={loaded} what="Reading the journal">
      {(run) => <Run run={run} tab={props.tab} reload={loaded.reload} />}
    </Shown>
  );
}

function Run(props: {
  readonly run: RunDetails;
  readonly tab: string | undefined;
  readonly reload: () => void;
}) {
  const { run } = props;
  const isUnderWay = run.status === "under way";
  const chosen = TABS.some((tab) => tab.name === props.tab)
    ? props.tab!
    : isUnderWay
      ? "journal"
      : "overview";
  return (
    <>
      <PageHead
        name={`Run ${run.run}`}
        title={
          <>
            {run.model ?? run.run} <Tag tone={statusTone(run.status)}>{run.status}</Tag>{" "}
            {run.verdict && <Tag tone={verdictTone(run.verdict)}>{run.verdict}</Tag>}
          </>
        }
        about={
          <>
            {[run.workload, run.engine, run.device].filter(Boolean).join(" \u00b7 ")} {"\u00b7"}{" "}
            {when(run.started_at)} UTC {"\u00b7"} <code>{run.run}</code>
          </>
        }
      >
        <Actions {...props} />
      </PageHead>
      <Result run={run} />
      <Tabs
        label="Parts of the run"
        tabs={TABS}
        chosen={chosen}
        choose={(name) => go(href("runs", [run.run, name]))}
      >
        {chosen === "overview" && <Overview run={run} />}
        {chosen === "experiments" && <Experiments run={run.run} />}
        {chosen === "levers" && <Levers run={run} />}
        {chosen === "timeline" && <TimelineView path={`runs/${run.run}/timeline`} />}
        {chosen === "evidence" && <Evidence run={run} />}
        {chosen === "journal" && (
          <Journal run={run.run} ended={isUnderWay ? props.reload : undefined} />
        )}
      </Tabs>
    </>
  );
}

function Result({ run }: { readonly run: RunDetails }) {
  if (!run.baseline) return null;
  const unit = metricUnit(run.metric);
  return (
    <div className="run-result">
      <Figure
        label={`${metricName(run.metric)} at the start`}
        quantity={{ ...run.baseline, unit }}
        basis={`measured on ${run.device ?? "this machine"}`}
      />
      {run.final && (
        <Figure
          label="with the kept settings"
          quantity={{ ...run.final, unit }}
          basis={`measured on ${run.device ?? "this machine"}`}
        />
      )}
      {run.ratio && (
        <Figure label="ratio" quantity={{ ...run.ratio, unit: "x" }} basis="paired blocks" />
      )}
      <Figure
        label="measured"
        quantity={{ value: run.blocks, unit: "blocks" }}
        basis={`${run.experiments} experiments in ${run.seconds.toFixed(0)} s`}
      />
    </div>
  );
}

function Actions(props: { readonly run: RunDetails; readonly reload: () => void }) {
  const { run } = props;
  const [asked, ask] = useState<"stop" | "rollback" | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  const [said, setSaid] = useState<string | null>(null);
  const isUnderWay = run.status === "under way";
  const canUndo = !isUnderWay && (run.changes_in_force > 0 || run.status === "interrupted");

  function act(action: "stop" | "rollback"): void {
    setProblem(null);
    setSaid(action === "stop" ? "Stopping" : "Rolling back");
    post<{ statement: string }>(`runs/${run.run}/${action}`).then(
      (done) => {
        setSaid(done.statement);
        props.reload();
      },
      (error: Error) => {
        setSaid(null);
        setProblem(error);
      },
    );
  }

  return (
    <>
      {isUnderWay && <Button onClick={() => ask("stop")}>Stop</Button>}
      {canUndo && <Button onClick={() => ask("rollback")}>Roll back</Button>}
      <span role="status" className="muted small">
        {said}
      </span>
      {problem && <ErrorState error={problem} title="Not done" />}
      {asked === "stop" && (
        <Confirm
          title="Stop this run?"
          action="Stop the run"
          confirm={() => act("stop")}
          cancel={() => ask(null)}
        >
          It is interrupted as by ctrl-c: the configuration of before the current trial is restored,
          then the run ends. <code>assay run --resume</code> goes on with it.
        </Confirm>
      )}
      {asked === "rollback" && (
        <Confirm
          title="Undo what this run changed?"
          action="Roll back"
          confirm={() => act("rollback")}
          cancel={() => ask(null)}
        >
          The settings of before the run are restored from its journal. A server is started again
          with the settings that it had.
        </Confirm>
      )}
    </>
  );
}
