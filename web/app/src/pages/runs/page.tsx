// Runs of the loop and stored traces: lists, and one of either.

import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { go, href, useRoute } from "../../shell/route";
import { RunPage } from "./run";
import "./runs.css";
import { Tabs } from "../../components/tabs";
import { RunTable } from "./run-table";
import { TracePage } from "./trace";
import { TraceTable } from "./trace-table";
import type { RunList, TraceList } from "./types";

export default function Runs() {
  const { segments } = useRoute();
  const [first, second] = segments;
  if (first === "trace" && second)
    return <TracePage key={second} name={second} tab={segments[2]} />;
  if (first && first !== "traces") return <RunPage key={first} run={first} tab={second} />;
  return <Lists chosen={first === "traces" ? "traces" : "runs"} />;
}

function Lists(props: { readonly chosen: "runs" | "traces" }) {
  return (
    <>
      <PageHead
        title="Runs"
        about="What assay run tried, kept and proved on this machine, and the traces that were stored."
      />
      <Tabs
        label="Kinds"
        chosen={props.chosen}
        choose={(name) => go(href("runs", name === "traces" ? ["traces"] : []))}
        tabs={[
          { name: "runs", title: "Runs" },
          { name: "traces", title: "Traces" },
        ]}
      >
        {props.chosen === "runs" ? <AllRuns /> : <AllTraces />}
      </Tabs>
    </>
  );
}

function AllRuns() {
  const loaded = useApi<RunList>("runs");
  return (
    <Shown of={loaded} what="Reading the journals">
      {({ runs, path }) =>
        runs.length ? (
          <Card>
            <RunTable runs={runs} />
          </Card>
        ) : (
          <Empty title="No runs yet">
            <code>assay run</code> makes one and stores it in <code>{path}</code>.
          </Empty>
        )
      }
    </Shown>
  );
}

function AllTraces() {
  const loaded = useApi<TraceList>("traces");
  return (
    <Shown of={loaded}>
      {({ traces, path }) =>
        traces.length ? (
          <Card>
            <TraceTable traces={traces} />
          </Card>
        ) : (
          <Empty title="No stored traces">
            <code>assay trace import FILE</code> stores a trace of PyTorch, Nsight Systems or vLLM
            in <code>{path}</code>; <code>assay trace attach</code> records one.
          </Empty>
        )
      }
    </Shown>
  );
}
