import { type KeyboardEvent, useId, useState } from "react";
import { isStatic } from "../api/static";
import { useApi } from "../api/use-api";
import { search } from "./cone";
import type { BriefVariable } from "./types";

/** A box that finds a variable by words of its name or meaning. */
export function VariablePicker(props: {
  readonly label: string;
  readonly placeholder?: string;
  readonly value?: string;
  /** Variables to choose from; all of the model where they are not given. */
  readonly among?: readonly BriefVariable[];
  readonly choose: (name: string) => void;
}) {
  const id = useId();
  const [text, setText] = useState<string | null>(null);
  const [at, setAt] = useState(0);
  const isOpen = text !== null;
  // An exported site has the declared targets only.
  const all = useApi<readonly BriefVariable[]>(
    isOpen && !props.among ? "variables" : null,
    isStatic() ? { targets: true } : {},
  );
  const known = props.among ?? (all.state === "error" ? [] : (all.data ?? []));
  const found = isOpen ? search(known, text) : [];

  function choose(variable: BriefVariable | undefined): void {
    if (!variable) return;
    setText(null);
    props.choose(variable.name);
  }

  function key(event: KeyboardEvent<HTMLInputElement>): void {
    if (event.key === "Escape") setText(null);
    else if (event.key === "Enter") choose(found[at]);
    else if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else return;
    event.preventDefault();
  }

  const isShown = isOpen && text.trim() !== "";
  return (
    <div className="picker">
      <label className="field">
        <span className="field-label">{props.label}</span>
        <input
          className="input"
          role="combobox"
          aria-expanded={isShown}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          {...(isShown && found[at] ? { "aria-activedescendant": `${id}-${at}` } : {})}
          placeholder={props.placeholder ?? "Find a variable"}
          value={text ?? props.value ?? ""}
          onFocus={(event) => {
            setText("");
            event.target.select();
          }}
          onBlur={() => setText(null)}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={key}
        />
      </label>
      <div
        id={`${id}-list`}
        role="listbox"
        aria-label={props.label}
        hidden={!isShown}
        className="picker-list"
      >
        {found.map((variable, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the box above has the keys.
          // biome-ignore lint/a11y/useFocusableInteractive: focus stays in the box above.
          <div
            key={variable.name}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === at}
            className="picker-option"
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(variable)}
          >
            <span className="mono">{variable.name}</span>
            <span className="muted small">{variable.meaning}</span>
          </div>
        ))}
        {isShown && found.length === 0 && (
          // biome-ignore lint/a11y/useFocusableInteractive: focus stays in the box above.
          <div role="option" aria-selected={false} aria-disabled className="picker-option muted">
            {all.state === "loading" && !props.among
              ? "Loading names"
              : `No variable has "${text}"`}
          </div>
        )}
      </div>
    </div>
  );
}
