import { useMemo } from "react";
import { useApi } from "../../api/use-api";
import { PageHead } from "../../components/page-head";
import { ErrorState, Loading } from "../../components/states";
import { type GraphData, readGraph } from "../../tape/graph";
import { LabView } from "./lab-view";
import "./lab.css";
import { meta } from "./meta";
import { useLabState } from "./state";
import type { LabData } from "./types";

export default function LabPage() {
  const graph = useApi<GraphData>("lab/graph");
  const scenarios = useApi<LabData>("lab/scenarios");
  const failed = [graph, scenarios].find((one) => one.state === "error");
  if (failed?.state === "error") {
    return (
      <>
        <PageHead title={meta.title} about={meta.about} />
        <ErrorState error={failed.error} retry={failed.reload} />
      </>
    );
  }
  if (graph.state !== "ready" || scenarios.state !== "ready") {
    return (
      <>
        <PageHead title={meta.title} about={meta.about} />
        <Loading what="Loading the equations" />
      </>
    );
  }
  return <Ready graphData={graph.data} data={scenarios.data} />;
}

function Ready(props: { readonly graphData: GraphData; readonly data: LabData }) {
  const graph = useMemo(() => readGraph(props.graphData), [props.graphData]);
  const { read, change } = useLabState(graph, props.data);
  if ("error" in read) {
    return (
      <>
        <PageHead title={meta.title} about={meta.about} />
        <ErrorState error={read.error} title="This link cannot be opened" />
        <p>
          <a href="#/lab">Open the lab anew</a>
        </p>
      </>
    );
  }
  return <LabView graph={graph} data={props.data} state={read.state} change={change} />;
}
