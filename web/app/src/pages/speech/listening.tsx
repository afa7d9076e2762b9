import { type ChangeEvent, useRef, useState } from "react";
import { postBytes } from "../../api/client";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { ErrorState, Loading } from "../../components/states";
import { Select, Toolbar } from "../../components/toolbar";
import { LONGEST, RATE, type Recorder, resampled, startRecording } from "./recorder";
import { wavOf } from "./wav";

interface Transcription {
  readonly text: string;
  readonly seconds: number;
  readonly segments: readonly {
    readonly start: number;
    readonly end: number;
    readonly text: string;
  }[];
}

type State = "idle" | "recording" | "working";

/** Record, or take a file, and read what was said. */
export function Listening(props: {
  readonly models: readonly string[];
  readonly heard: (text: string) => void;
}) {
  const [model, setModel] = useState(props.models[0]!);
  const [state, setState] = useState<State>("idle");
  const [error, setError] = useState<Error | null>(null);
  const [answer, setAnswer] = useState<Transcription | null>(null);
  const recorder = useRef<Recorder | null>(null);

  async function guarded(work: () => Promise<void>): Promise<void> {
    setError(null);
    try {
      await work();
    } catch (problem) {
      setState("idle");
      setError(problem as Error);
    }
  }

  async function transcribe(samples: Float32Array): Promise<void> {
    setState("working");
    const body = wavOf(samples, RATE);
    const path = `speech/transcriptions?model=${encodeURIComponent(model)}`;
    const response = await postBytes(path, body, "audio/wav");
    const found = (await response.json()) as Transcription;
    setAnswer(found);
    props.heard(found.text.trim());
    setState("idle");
  }

  const start = () =>
    guarded(async () => {
      const started = await startRecording();
      recorder.current = started;
      setState("recording");
      started.ended.then(finish);
    });

  const finish = () =>
    guarded(async () => {
      const stopped = recorder.current;
      recorder.current = null;
      if (stopped) await transcribe(await stopped.stop());
    });

  const read = (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    event.target.value = "";
    if (file) guarded(async () => transcribe(await resampled(await file.arrayBuffer())));
  };

  return (
    <Card title="Listen" about={`Up to ${LONGEST} seconds at a time.`}>
      <Toolbar label="What to listen to">
        <Select
          label="Model"
          value={model}
          options={props.models.map((name) => [name, name] as const)}
          choose={setModel}
        />
        {state === "recording" ? (
          <Button kind="danger" onClick={finish}>
            Stop
          </Button>
        ) : (
          <Button kind="primary" disabled={state !== "idle"} onClick={start}>
            Record
          </Button>
        )}
        <label className="field">
          <span className="field-label">or a file</span>
          <input type="file" accept="audio/*" disabled={state !== "idle"} onChange={read} />
        </label>
      </Toolbar>
      {state === "recording" && <p role="status">Recording: speak now.</p>}
      {state === "working" && <Loading what="Listening" />}
      {error && <ErrorState title="This was not heard" error={error} />}
      {answer && state === "idle" && !error && <Heard answer={answer} />}
    </Card>
  );
}

function Heard(props: { readonly answer: Transcription }) {
  const { answer } = props;
  if (answer.segments.length === 0) return <p className="muted">No speech was heard.</p>;
  return (
    <ol className="speech-segments">
      {answer.segments.map((one) => (
        <li key={one.start}>
          <span className="number muted small">
            {one.start.toFixed(1)} to {one.end.toFixed(1)} s
          </span>
          <span>{one.text.trim()}</span>
        </li>
      ))}
    </ol>
  );
}
