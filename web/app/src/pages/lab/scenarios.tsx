// The scenarios side by side: which one the controls change, and how to have another.

import { Button } from "../../components/button";
import type { LabState } from "./state";
import { type LabData, LETTERS, MOST_SCENARIOS, type Resolved } from "./types";

export function Scenarios(props: {
  readonly data: LabData;
  readonly state: LabState;
  readonly resolved: readonly Resolved[];
  readonly change: (next: Partial<LabState>) => void;
}) {
  const { state, change } = props;
  const { selections, active } = state;
  const remove = (place: number) => {
    const left = selections.filter((_, at) => at !== place);
    change({ selections: left, active: Math.min(active, left.length - 1) });
  };
  return (
    <div className="lab-scenarios">
      <div role="radiogroup" aria-label="Scenario to change" className="lab-chips">
        {selections.map((_, place) => (
          <span key={LETTERS[place]} className={`lab-chip series-${place + 1}`}>
            <label>
              <input
                type="radio"
                name="scenario"
                checked={place === active}
                onChange={() => change({ active: place })}
              />
              <strong>{LETTERS[place]}</strong> {titleOf(props.resolved[place])}
            </label>
            {selections.length > 1 && (
              <button
                type="button"
                className="lab-remove"
                aria-label={`Remove scenario ${LETTERS[place]}`}
                onClick={() => remove(place)}
              >
                {"\u00d7"}
              </button>
            )}
          </span>
        ))}
      </div>
      {selections.length < MOST_SCENARIOS && (
        <Button
          onClick={() =>
            change({
              selections: [...selections, structuredClone(selections[active])],
              active: selections.length,
            })
          }
        >
          Compare with a copy
        </Button>
      )}
    </div>
  );
}

/** What a scenario is, in a few words: its model and its accelerator, else its preset. */
export function titleOf({ result, selection }: Resolved): string {
  const title = (group: string) =>
    result?.scenario.included
      .filter((part) => part.group === group)
      .at(-1)
      ?.path.split("/")[1];
  const parts = [title("models"), title("accelerators")].filter(Boolean);
  const changes = Object.keys(selection.assign).length;
  const name = parts.length > 0 ? parts.join(" on ") : selection.preset || "empty";
  return changes > 0 ? `${name}, ${changes} changed` : name;
}
