// The command palette: pages, variables, scenarios, runs and documents by a few letters.

import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { isStatic } from "../api/static";
import { useApi } from "../api/use-api";
import { PAGES } from "../routes";
import { type Entry, found, lines } from "./palette-entries";
import { go, href } from "./route";

interface Variable {
  readonly name: string;
  readonly meaning: string;
}

interface Preset {
  readonly name: string;
  readonly description: string;
}

interface Run {
  readonly run: string;
  readonly model: string | null;
  readonly workload: string | null;
  readonly verdict: string | null;
}

interface Document {
  readonly name: string;
  readonly title: string;
}

const MOST = 40;

/** Opens the palette by ctrl-k or cmd-k; returns whether it is open. */
export function usePalette(): readonly [boolean, (isOpen: boolean) => void] {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: globalThis.KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setOpen((before) => !before);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return [isOpen, setOpen];
}

function useEntries(): { readonly entries: readonly Entry[]; readonly isLoading: boolean } {
  const isServed = !isStatic();
  // An exported site has the declared targets only, and neither runs nor documents.
  const variables = useApi<readonly Variable[]>("variables", isServed ? {} : { targets: true });
  const presets = useApi<readonly Preset[]>("presets");
  const runs = useApi<{ readonly runs: readonly Run[] }>(isServed ? "runs" : null);
  const documents = useApi<readonly Document[]>(isServed ? "documents" : null);
  const loaded = [variables, presets, ...(isServed ? [runs, documents] : [])];
  const isLoading = loaded.some((one) => one.state === "loading");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the states stand for their data.
  const entries = useMemo(() => {
    const has = (page: string) => PAGES.some((one) => one.path === page);
    const all: Entry[] = PAGES.map((page) => ({
      kind: "page",
      title: page.title,
      about: page.about,
      address: href(page.path),
    }));
    if (presets.state === "ready" && has("lab")) {
      for (const one of presets.data) {
        const address = href("lab", [], { preset: one.name });
        all.push({ kind: "scenario", title: one.name, about: one.description, address });
      }
    }
    if (runs.state === "ready") {
      for (const one of runs.data.runs) {
        const about = [one.model, one.workload, one.verdict].filter(Boolean).join(", ");
        all.push({ kind: "run", title: one.run, about, address: href("runs", [one.run]) });
      }
    }
    if (variables.state === "ready" && has("receipt")) {
      for (const one of variables.data) {
        const address = href("receipt", [one.name]);
        all.push({ kind: "variable", title: one.name, about: one.meaning, address });
      }
    }
    if (documents.state === "ready") {
      for (const one of documents.data) {
        const address = href("docs", one.name.split("/"));
        all.push({ kind: "document", title: one.title, about: one.name, address });
      }
    }
    return all;
  }, [variables.state, presets.state, runs.state, documents.state]);
  return { entries, isLoading };
}

export function Palette(props: { readonly close: () => void }) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { entries, isLoading } = useEntries();
  const shown = useMemo(() => found(entries, text, MOST), [entries, text]);
  const chosen = Math.min(at, shown.length - 1);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    list.current?.querySelectorAll('[role="option"]')[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);

  function open(entry: Entry | undefined): void {
    if (!entry) return;
    dialog.current?.close();
    go(entry.address);
  }

  function key(event: KeyboardEvent): void {
    if (event.key === "Enter") open(shown[chosen]);
    else if (event.key === "ArrowDown") setAt((chosen + 1) % Math.max(shown.length, 1));
    else if (event.key === "ArrowUp")
      setAt((chosen + shown.length - 1) % Math.max(shown.length, 1));
    else return;
    event.preventDefault();
  }

  const said = isLoading
    ? "Loading names"
    : shown.length === 0
      ? `Nothing has "${text}"`
      : `${shown.length === MOST ? `The first ${MOST}` : shown.length} found`;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog by itself.
    <dialog
      ref={dialog}
      className="palette"
      aria-label="Go to"
      onClose={props.close}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close();
      }}
    >
      <input
        className="palette-input"
        role="combobox"
        aria-label="Go to a page, variable, scenario, run or document"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        {...(shown[chosen] ? { "aria-activedescendant": `${id}-${chosen}` } : {})}
        placeholder="Go to a page, variable, scenario, run or document"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={key}
      />
      <div id={`${id}-list`} ref={list} role="listbox" aria-label="Found" className="palette-list">
        {lines(shown).map(({ heading, entry, index }) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the box above has the keys.
          // biome-ignore lint/a11y/useFocusableInteractive: focus stays in the box above.
          <div
            key={entry.address}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === chosen}
            className={heading ? "palette-option first" : "palette-option"}
            onMouseMove={() => setAt(index)}
            onClick={() => open(entry)}
          >
            <span className="palette-kind">{entry.kind}</span>
            <span
              className={entry.kind === "variable" || entry.kind === "run" ? "mono" : undefined}
            >
              {entry.title}
            </span>
            <span className="muted small palette-about">{entry.about}</span>
          </div>
        ))}
      </div>
      <p className="palette-said muted small" role="status">
        {said}
      </p>
    </dialog>
  );
}
