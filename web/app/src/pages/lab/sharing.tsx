// What can be done with a scenario: keep it, hand it on as link, command or file.

import { useState } from "react";
import { Button } from "../../components/button";
import { recall, remember } from "../../shell/memory";
import type { Graph } from "../../tape/graph";
import type { Selection } from "../../tape/scenario";
import { commandOf, scenarioFile } from "../../tape/share";
import { titleOf } from "./scenarios";
import { type LabState, linkOf } from "./state";
import { type LabData, LETTERS, type Resolved } from "./types";

const KEY = "assay.lab.saved";

interface Saved {
  readonly name: string;
  readonly selections: readonly Selection[];
  readonly target: string | null;
}

function readSaved(): Saved[] {
  try {
    const found: unknown = JSON.parse(recall(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.name === "string") : [];
  } catch {
    return [];
  }
}

export function Sharing(props: {
  readonly graph: Graph;
  readonly data: LabData;
  readonly state: LabState;
  readonly target: number;
  readonly active: Resolved;
  readonly change: (next: Partial<LabState>) => void;
}) {
  const { graph, state, active, target } = props;
  const [said, setSaid] = useState("");
  const [saved, setSaved] = useState(readSaved);
  const [text, setText] = useState<string | null>(null);
  const keep = (next: Saved[]) => {
    setSaved(next);
    remember(KEY, JSON.stringify(next));
  };
  const copy = (what: string, content: string) => {
    setText(content);
    const copied = navigator.clipboard?.writeText(content) ?? Promise.reject(new Error("refused"));
    copied.then(
      () => setSaid(`${what} copied`),
      () => setSaid(`${what}: the browser does not let pages copy; it is below`),
    );
  };
  const letter = state.selections.length > 1 ? ` ${LETTERS[state.active]}` : "";
  const name = titleOf(active);
  return (
    <div className="lab-sharing">
      <div className="lab-buttons">
        <Button
          onClick={() => {
            const entry = { name, selections: state.selections, target: state.target };
            keep([entry, ...saved.filter((one) => one.name !== name)].slice(0, 20));
            setSaid(`saved as "${name}"`);
          }}
        >
          Save
        </Button>
        <Button onClick={() => copy("link", new URL(linkOf(graph, state), location.href).href)}>
          Copy link
        </Button>
        <Button
          onClick={() =>
            copy("command", commandOf(graph, active.selection, graph.variable(target).name))
          }
        >
          Copy as command{letter}
        </Button>
        <Button
          disabled={active.result === null}
          onClick={() => {
            if (active.result === null) return;
            const file = fileName(name);
            const content = scenarioFile(graph, active.result.scenario, file);
            download(`${file}.toml`, content);
            setSaid(`${file}.toml: assay resolve --preset ${file}.toml reads it`);
          }}
        >
          Export{letter}
        </Button>
        {saved.length > 0 && (
          <details className="lab-saved">
            <summary className="button">Saved ({saved.length})</summary>
            <ul>
              {saved.map((one) => (
                <li key={one.name}>
                  <button
                    type="button"
                    className="lab-forget"
                    onClick={() =>
                      props.change({ selections: one.selections, target: one.target, active: 0 })
                    }
                  >
                    {one.name}
                  </button>
                  <button
                    type="button"
                    className="lab-forget"
                    aria-label={`Forget ${one.name}`}
                    onClick={() => keep(saved.filter((other) => other.name !== one.name))}
                  >
                    {"\u00d7"}
                  </button>
                </li>
              ))}
            </ul>
          </details>
        )}
      </div>
      <p role="status" className="muted small">
        {said}
      </p>
      {text && (
        <p className="lab-text">
          <code data-testid="shared">{text}</code>
        </p>
      )}
    </div>
  );
}

function fileName(title: string): string {
  return title.replace(/[^A-Za-z0-9.]+/g, "_").replace(/^_|_$/g, "") || "scenario";
}

function download(name: string, content: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/toml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
