import { type FormEvent, useState } from "react";
import { postBytes } from "../../api/client";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { ErrorState, Loading } from "../../components/states";
import { Select, Toolbar } from "../../components/toolbar";
import { play } from "./recorder";
import type { Installed } from "./types";

const MOST_CHARACTERS = 1_000;

/** Write, and listen to it. What was heard can be said again. */
export function Speaking(props: {
  readonly installed: Installed;
  readonly text: string;
  readonly setText: (text: string) => void;
}) {
  const [voice, setVoice] = useState(props.installed.voice);
  const [state, setState] = useState<"idle" | "working" | "playing">("idle");
  const [error, setError] = useState<Error | null>(null);

  async function speak(event: FormEvent): Promise<void> {
    event.preventDefault();
    setError(null);
    setState("working");
    try {
      const body = new TextEncoder().encode(JSON.stringify({ text: props.text, voice }));
      const response = await postBytes("speech/waveforms", body, "application/json");
      const content = await response.arrayBuffer();
      setState("playing");
      await play(content);
    } catch (problem) {
      setError(problem as Error);
    }
    setState("idle");
  }

  return (
    <Card title="Speak">
      <form onSubmit={speak} className="speech-form">
        <label>
          <span className="unseen">Text to say</span>
          <textarea
            className="input"
            rows={3}
            maxLength={MOST_CHARACTERS}
            value={props.text}
            placeholder="What shall be said?"
            onChange={(event) => props.setText(event.target.value)}
          />
        </label>
        <Toolbar label="Who says it">
          <Select
            label="Voice"
            value={voice}
            options={props.installed.voices.map((name) => [name, name] as const)}
            choose={setVoice}
          />
          <Button kind="primary" type="submit" disabled={state !== "idle" || !props.text.trim()}>
            Speak
          </Button>
        </Toolbar>
      </form>
      {state === "working" && <Loading what="Speaking" />}
      {state === "playing" && <p role="status">Playing.</p>}
      {error && <ErrorState title="This was not said" error={error} />}
    </Card>
  );
}
