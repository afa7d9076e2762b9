// Inputs as sliders: what was changed, what moves the output in focus most, and any other by name.

import { useCallback, useState } from "react";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { Slider } from "../../components/slider";
import { figureText } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import { type Swing, tornado } from "../../tape/questions";
import type { Assignment, Selection } from "../../tape/scenario";
import { useSliced } from "./sliced";
import type { LabData, Result } from "./types";

const MOST_SUGGESTED = 8;
/** Missing inputs shown at first; a button shows the others. */
const MOST_MISSING = 6;
/** What these groups give is what the model and the chip are: people choose others, they do not move it. */
const IDENTITY = ["models", "accelerators"];
const UNCERTAINTIES = [0, 0.05, 0.1, 0.25, 0.5, 1] as const;

export function Inputs(props: {
  readonly graph: Graph;
  readonly data: LabData;
  readonly result: Result;
  readonly base: Result | null;
  readonly target: number;
  readonly choose: (selection: Selection) => void;
}) {
  const { graph, result, target } = props;
  const { selection } = result.scenario;
  const [isWhole, setWhole] = useState(false);
  // Which inputs are offered depends on the scenario, not on where its sliders stand: they would
  // change places under the pointer.
  const { base } = props;
  const ranked = useSliced<Swing[]>(
    useCallback(
      () => base && tornado(base.model, base.scenario, base.point, target, false),
      [base, target],
    ),
  );
  const given = new Set(
    base?.scenario.included
      .filter(({ group }) => IDENTITY.includes(group))
      .flatMap(({ names }) => names),
  );
  const changed = Object.keys(selection.assign).filter((name) => !props.data.layout.includes(name));
  // Measured constants move the answer too, but nobody sets them: they can be searched for.
  const suggested = (ranked.result ?? [])
    .map(({ input }) => graph.variable(input).name)
    .filter((name) => base?.scenario.values[name]?.kind !== "measured")
    .filter((name) => !(name in selection.assign))
    .filter((name) => !props.data.layout.includes(name) && !given.has(name))
    .slice(0, MOST_SUGGESTED);
  const assign = (name: string, assignment: Assignment) =>
    props.choose({ ...selection, assign: { ...selection.assign, [name]: assignment } });
  const forget = (name: string) => {
    const { [name]: _, ...rest } = selection.assign;
    props.choose({ ...selection, assign: rest });
  };
  const missing = result.outputs.get(target)?.missing ?? [];
  return (
    <Card
      title="Inputs"
      actions={
        Object.keys(selection.assign).length > 0 && (
          <Button kind="quiet" onClick={() => props.choose({ ...selection, assign: {} })}>
            Reset all
          </Button>
        )
      }
    >
      {missing.length > 0 && (
        <section className="lab-gaps" aria-label="Missing inputs">
          <h3 className="lab-sub">Missing: {graph.variable(target).meaning} needs</h3>
          <ul>
            {missing.slice(0, isWhole ? missing.length : MOST_MISSING).map((index) => (
              <MissingInput key={index} graph={graph} index={index} assign={assign} />
            ))}
          </ul>
          {missing.length > MOST_MISSING && !isWhole && (
            <Button kind="quiet" onClick={() => setWhole(true)}>
              Show all {missing.length}
            </Button>
          )}
        </section>
      )}
      <div className="stack lab-sliders">
        {[...changed, ...suggested].map((name) => (
          <InputSlider key={name} {...props} name={name} assign={assign} forget={forget} />
        ))}
      </div>
      {ranked.result === undefined && <p className="muted small">Ranking the inputs</p>}
      <AnyInput graph={graph} result={result} assign={assign} />
    </Card>
  );
}

function InputSlider(props: {
  readonly graph: Graph;
  readonly result: Result;
  readonly base: Result | null;
  readonly name: string;
  readonly assign: (name: string, assignment: Assignment) => void;
  readonly forget: (name: string) => void;
}) {
  const { graph, name, assign } = props;
  const index = graph.find(name);
  const stated = props.result.scenario.values[name];
  const assigned = props.result.scenario.selection.assign[name];
  const variable = graph.variable(index);
  const { value } = stated;
  const middle = props.base?.scenario.values[name]?.value ?? value;
  const range = rangeOf(graph, index, middle, value);
  const whole = (to: number) => (variable.count ? Math.round(to) : to);
  const move = (to: number) => {
    const rounded = variable.count ? whole(to) : Number(to.toPrecision(4));
    const bounded = Math.min(Math.max(rounded, graph.lower[index]), graph.upper[index]);
    assign(name, { ...assigned, value: bounded });
  };
  return (
    <div className={assigned ? "lab-input changed" : "lab-input"} data-input={name}>
      <Slider
        label={<span title={name}>{variable.meaning}</span>}
        value={value}
        min={range.min}
        max={range.max}
        isLogarithmic={range.isLogarithmic}
        shown={figureText(value, graph.unit(index))}
        change={move}
      />
      <div className="lab-input-row">
        <NumberField
          label={`${variable.meaning}, in ${graph.unit(index).text}`}
          unit={graph.unit(index).text}
          value={graph.fromBase(index, value)}
          change={(shown) =>
            assign(name, { ...assigned, value: whole(graph.toBase(index, shown)) })
          }
        />
        <Uncertainty
          stated={stated.draw !== undefined}
          assigned={assigned}
          value={value}
          change={(uncertainty) =>
            assign(name, { value, ...(uncertainty > 0 ? { uncertainty } : {}) })
          }
          name={variable.meaning}
        />
        {assigned && (
          <button type="button" className="lab-reset" onClick={() => props.forget(name)}>
            Reset<span className="unseen"> {variable.meaning}</span>
          </button>
        )}
      </div>
    </div>
  );
}

function Uncertainty(props: {
  readonly stated: boolean;
  readonly assigned: Assignment | undefined;
  readonly value: number;
  readonly name: string;
  readonly change: (uncertainty: number) => void;
}) {
  if (!(props.value > 0)) return null;
  const given = props.assigned?.uncertainty ?? 0;
  const chosen = props.assigned ? `${given}` : props.stated ? "stated" : "0";
  const choices = [...new Set([...UNCERTAINTIES, given])].sort((one, other) => one - other);
  return (
    <label className="lab-uncertainty">
      <span className="unseen">Uncertainty of {props.name}</span>
      <select
        className="select small"
        value={chosen}
        onChange={(event) => props.change(Number(event.target.value))}
      >
        {!props.assigned && props.stated && <option value="stated">stated</option>}
        {choices.map((share) => (
          <option key={share} value={`${share}`}>
            {share === 0 ? "exact" : `\u00b1 ${Number((100 * share).toPrecision(3))} %`}
          </option>
        ))}
      </select>
    </label>
  );
}

function NumberField(props: {
  readonly label: string;
  readonly unit: string;
  readonly value: number;
  readonly change: (value: number) => void;
}) {
  const [draft, setDraft] = useState<string | null>(null);
  const commit = () => {
    const number = Number(draft);
    if (draft !== null && draft.trim() !== "" && Number.isFinite(number)) props.change(number);
    setDraft(null);
  };
  return (
    <label className="lab-number">
      <span className="unseen">{props.label}</span>
      <input
        className="input small number"
        inputMode="decimal"
        value={draft ?? `${Number(props.value.toPrecision(8))}`}
        onChange={(event) => setDraft(event.target.value)}
        onBlur={commit}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
      {props.unit !== "1" && <span className="muted small">{props.unit}</span>}
    </label>
  );
}

function MissingInput(props: {
  readonly graph: Graph;
  readonly index: number;
  readonly assign: (name: string, assignment: Assignment) => void;
}) {
  const { graph, index } = props;
  const { name, meaning, count } = graph.variable(index);
  const [text, setText] = useState("");
  const number = Number(text);
  const base = graph.toBase(index, number);
  const isUsable =
    text.trim() !== "" &&
    Number.isFinite(number) &&
    (!count || Number.isInteger(base)) &&
    graph.lower[index] <= base &&
    base <= graph.upper[index];
  return (
    <li className="lab-gap">
      <label>
        <span>
          {meaning} <code>{name}</code>
        </span>
        <span className="lab-number">
          <input
            className="input small number"
            inputMode="decimal"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <span className="small">
            {graph.unit(index).text === "1" ? "" : graph.unit(index).text}
          </span>
        </span>
      </label>
      <Button disabled={!isUsable} onClick={() => props.assign(name, { value: base })}>
        Give<span className="unseen"> {meaning}</span>
      </Button>
    </li>
  );
}

/** Any variable by name: a given one moves, a computed one is replaced by a value. */
function AnyInput(props: {
  readonly graph: Graph;
  readonly result: Result;
  readonly assign: (name: string, assignment: Assignment) => void;
}) {
  const { graph, result } = props;
  const [text, setText] = useState("");
  const words = text.trim().toLowerCase().split(/\s+/);
  const found =
    text.trim().length < 2
      ? []
      : graph.data.variables.filter(({ name, meaning }) => {
          const line = `${name} ${meaning}`.toLowerCase();
          return words.every((word) => line.includes(word));
        });
  const start = (name: string) => {
    const index = graph.find(name);
    const value =
      result.reading.value(index) ?? Math.max(graph.lower[index], Math.min(graph.upper[index], 1));
    props.assign(name, { value });
    setText("");
  };
  return (
    <div className="lab-any">
      <label className="field">
        <span className="field-label">Another input</span>
        <input
          className="input"
          type="search"
          placeholder="a name or words of its meaning"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </label>
      {found.length > 0 && (
        <ul className="lab-found">
          {found.slice(0, 8).map(({ name, meaning }) => (
            <li key={name}>
              <button type="button" onClick={() => start(name)}>
                {meaning} <code>{name}</code>
              </button>
            </li>
          ))}
          {found.length > 8 && <li className="muted small">and {found.length - 8} more</li>}
        </ul>
      )}
      {text.trim().length >= 2 && found.length === 0 && (
        <p className="muted small">No variable has these words.</p>
      )}
    </div>
  );
}

/** Where a slider reaches: a tenth to ten times, within the variable's bounds; a share from 0 to 1. */
export function rangeOf(
  graph: Graph,
  index: number,
  middle: number,
  value: number,
): { min: number; max: number; isLogarithmic: boolean } {
  const [low, high] = [graph.lower[index], graph.upper[index]];
  if (Number.isFinite(low) && Number.isFinite(high) && (low <= 0 || high / low < 100)) {
    return { min: low, max: high, isLogarithmic: false };
  }
  if (middle > 0) {
    const min = Math.max(Math.min(middle / 10, value), low, Number.MIN_VALUE);
    return { min, max: Math.min(Math.max(middle * 10, value), high), isLogarithmic: true };
  }
  const reach = Math.max(Math.abs(middle), Math.abs(value), 1);
  return { min: Math.max(-reach, low), max: Math.min(10 * reach, high), isLogarithmic: false };
}
