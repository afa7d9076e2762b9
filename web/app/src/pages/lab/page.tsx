import { useEffect, useState } from "react";
import { type Loaded, useApi } from "../../api/use-api";
import { PageHead } from "../../components/page-head";
import { ErrorState, Loading } from "../../components/states";
import { Model, type TapeData } from "../../tape/model";
import { LabView } from "./lab-view";
import "./lab.css";
import { meta } from "./meta";
import { useLabState } from "./state";
import type { LabData } from "./types";

export default function LabPage() {
  const data = useApi<LabData>("lab/model");
  const tape = useApi<TapeData>("lab/tape");
  const model = useModel(data.state === "ready" ? data.data : null, tape);
  const failed = [data, tape].find((answer) => answer.state === "error");
  const error = failed?.state === "error" ? failed.error : model instanceof Error ? model : null;
  if (error !== null) {
    return (
      <>
        <PageHead title={meta.title} about={meta.about} />
        <ErrorState error={error} {...(failed ? { retry: failed.reload } : {})} />
      </>
    );
  }
  if (data.state !== "ready" || !(model instanceof Model)) {
    return (
      <>
        <PageHead title={meta.title} about={meta.about} />
        <Loading what="Loading the equations" />
      </>
    );
  }
  return <Ready model={model} data={data.data} />;
}

/** The model, started once both answers are there. */
function useModel(data: LabData | null, tape: Loaded<TapeData>): Model | Error | null {
  const [model, setModel] = useState<Model | Error | null>(null);
  const bytes = tape.state === "ready" ? tape.data : null;
  useEffect(() => {
    if (data !== null && bytes !== null) Model.start(data, bytes).then(setModel, setModel);
  }, [data, bytes]);
  return model;
}

function Ready(props: { readonly model: Model; readonly data: LabData }) {
  const { read, change } = useLabState(props.model.graph, props.data);
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
  return <LabView model={props.model} data={props.data} state={read.state} change={change} />;
}
