// A stored trace: its timeline, and what assay diagnose says of it.

import { useState } from "react";
import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { CopyCommand } from "../../components/copy";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { Table } from "../../components/table";
import { Tabs } from "../../components/tabs";
import { shown } from "../../design/quantity";
import { go, href } from "../../shell/route";
import { StepComparison } from "./step-comparison";
import type { StepNode } from "./step-nodes";
import { TimelineView } from "./timeline-view";
import type { Term } from "./types";

interface Diagnosis {
  readonly waterfall?: readonly Term[];
  readonly step_ns?: number | null;
  readonly predicted_ns?: number | null;
  readonly lo?: number | null;
  readonly hi?: number | null;
  readonly causes?: readonly {
    readonly name: string;
    readonly ns_per_token: number;
    readonly fix?: string | null;
  }[];
  readonly nodes?: readonly StepNode[];
  readonly degradations?: readonly string[];
}

export function TracePage(props: { readonly name: string; readonly tab: string | undefined }) {
  const chosen = props.tab === "diagnosis" ? "diagnosis" : "timeline";
  return (
    <>
      <PageHead title={props.name} about="A stored trace." />
      <Tabs
        label="Parts of the trace"
        chosen={chosen}
        choose={(name) => go(href("runs", ["trace", props.name, name]))}
        tabs={[
          { name: "timeline", title: "Timeline" },
          { name: "diagnosis", title: "Diagnosis" },
        ]}
      >
        {chosen === "timeline" ? (
          <TimelineView path={`traces/${props.name}/timeline`} />
        ) : (
          <DiagnosisView name={props.name} />
        )}
      </Tabs>
    </>
  );
}

function DiagnosisView(props: { readonly name: string }) {
  const [model, setModel] = useState("");
  const [asked, setAsked] = useState("");
  const loaded = useApi<Diagnosis>(`traces/${props.name}/diagnosis`, { model: asked });
  const command = `assay diagnose ${props.name}${asked ? ` --model ${asked}` : ""}`;
  return (
    <div className="stack">
      <form
        className="toolbar"
        onSubmit={(event) => {
          event.preventDefault();
          setAsked(model.trim());
        }}
      >
        <label className="field">
          <span className="field-label">Model of the catalog that ran</span>
          <input
            className="input"
            placeholder="models/llama-3.1-8b"
            value={model}
            onChange={(event) => setModel(event.target.value)}
          />
        </label>
        <button type="submit" className="button">
          Predict
        </button>
      </form>
      <Shown of={loaded} what="Finding steps, operations and causes">
        {(data) => <Found data={data} />}
      </Shown>
      <CopyCommand command={command} />
    </div>
  );
}

function Found({ data }: { readonly data: Diagnosis }) {
  const time = (ns: number) => shown({ value: ns / 1e9, unit: "s" });
  return (
    <div className="stack">
      {data.waterfall?.length && data.step_ns ? (
        <StepComparison
          what="The median step of the trace"
          terms={data.waterfall}
          observedNs={data.step_ns}
          predicted={
            data.predicted_ns
              ? {
                  ns: data.predicted_ns,
                  lo: data.lo ?? data.predicted_ns,
                  hi: data.hi ?? data.predicted_ns,
                }
              : null
          }
          nodes={data.nodes ?? []}
          absent="Name the model that ran: the planner then predicts its step, node by node."
        />
      ) : (
        <Card title="Where the time of the median step goes">
          <Empty title="No step was recognized" />
        </Card>
      )}
      {data.causes && data.causes.length > 0 && (
        <Card title="Causes">
          <Table
            label="Causes"
            rows={data.causes}
            rowKey={(one) => one.name}
            columns={[
              { name: "name", title: "Cause", cell: (one) => one.name },
              {
                name: "time",
                title: "Per token",
                isNumber: true,
                key: (one) => one.ns_per_token,
                cell: (one) => time(one.ns_per_token),
              },
              { name: "fix", title: "What would remove it", cell: (one) => one.fix || "-" },
            ]}
          />
        </Card>
      )}
      {data.degradations && data.degradations.length > 0 && (
        <Card title="Degradations">
          <ul className="plain-list">
            {data.degradations.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </Card>
      )}
    </div>
  );
}
