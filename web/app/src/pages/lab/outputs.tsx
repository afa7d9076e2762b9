// Every output of every scenario, with interval and the change against the first.

import { useState } from "react";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { figure, type Shown } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import { signed } from "./heroes";
import { type Intervals, type LabData, LETTERS, type Resolved } from "./types";

/** Smaller changes would read as 0.0 %. */
const LEAST_CHANGE = 0.0005;

export function Outputs(props: {
  readonly graph: Graph;
  readonly data: LabData;
  readonly resolved: readonly Resolved[];
  readonly intervals: readonly Intervals[];
  readonly target: number;
  readonly choose: (name: string) => void;
}) {
  const { graph, data, resolved } = props;
  const [isWhole, setWhole] = useState(false);
  const valueAt = (place: number, index: number) =>
    resolved[place].result?.outputs.get(index)?.value;
  const isKnown = (index: number) =>
    resolved.some((_, place) => valueAt(place, index) !== undefined);
  const groups = data.headings
    .map(({ title, variables }) => ({ title, indexes: variables.map((name) => graph.find(name)) }))
    .map((group) => ({ ...group, indexes: group.indexes.filter((one) => isWhole || isKnown(one)) }))
    .filter(({ indexes }) => indexes.length > 0);
  const isAlone = resolved.length === 1;
  return (
    <Card>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
      <section className="table-scroll" aria-label="Outputs" tabIndex={0}>
        <table className={isAlone ? "table lab-outputs" : "table lab-outputs is-wide"}>
          <thead>
            <tr>
              <th scope="col">Output</th>
              {resolved.map((one, place) => (
                <th key={LETTERS[place]} scope="col" className="number">
                  <span className={`lab-letter series-${place + 1}`}>{LETTERS[place]}</span>
                  <span className="unseen"> {one.selection.preset}</span>
                </th>
              ))}
              {isAlone && (
                <th scope="col" className="number">
                  90 % interval
                </th>
              )}
            </tr>
          </thead>
          {groups.map(({ title, indexes }) => (
            <tbody key={title}>
              <tr className="lab-group">
                <th scope="rowgroup" colSpan={isAlone ? 3 : resolved.length + 1}>
                  {title}
                </th>
              </tr>
              {indexes.map((index) => (
                <OutputRow key={index} {...props} index={index} />
              ))}
            </tbody>
          ))}
        </table>
      </section>
      <Button kind="quiet" onClick={() => setWhole(!isWhole)}>
        {isWhole ? "Hide outputs without a value" : "Show outputs without a value"}
      </Button>
    </Card>
  );
}

/** An output of one scenario as text; undefined where it has no value. */
function shownAt(props: RowProps, place: number): Shown | undefined {
  const value = props.resolved[place].result?.outputs.get(props.index)?.value;
  if (value === undefined) return undefined;
  const { found, isStale } = props.intervals[place];
  const interval = isStale ? undefined : found?.get(props.index);
  return figure(value, props.graph.unit(props.index), interval?.lower, interval?.upper);
}

interface RowProps {
  readonly graph: Graph;
  readonly index: number;
  readonly resolved: readonly Resolved[];
  readonly intervals: readonly Intervals[];
}

/** The name and the figures of an output. Scenarios side by side share the unit, beside the name. */
function OutputRow(
  props: RowProps & { readonly target: number; readonly choose: (name: string) => void },
) {
  const { graph, index, resolved } = props;
  const { name, meaning } = graph.variable(index);
  const shown = resolved.map((_, place) => shownAt(props, place));
  const units = new Set(shown.flatMap((one) => (one ? [one.unit] : [])));
  const isShared = resolved.length > 1 && units.size === 1;
  return (
    <tr className={index === props.target ? "lab-focused" : undefined}>
      <th scope="row">
        <button
          type="button"
          className="lab-name"
          aria-pressed={index === props.target}
          title={name}
          onClick={() => props.choose(name)}
        >
          {meaning}
        </button>
        {isShared && <span className="lab-unit">{[...units][0]}</span>}
      </th>
      {resolved.length === 1 ? (
        <Alone {...props} shown={shown[0]} />
      ) : (
        shown.map((one, place) => (
          <td key={LETTERS[place]} className="number">
            {one ? (
              <Beside {...props} shown={one} place={place} hasUnit={!isShared} />
            ) : (
              <NoValue {...props} place={place} />
            )}
          </td>
        ))
      )}
    </tr>
  );
}

function Alone(props: RowProps & { readonly shown: Shown | undefined }) {
  const { shown } = props;
  if (!shown) {
    return (
      <td className="number" colSpan={2}>
        <NoValue {...props} place={0} />
      </td>
    );
  }
  return (
    <>
      <td className="number">
        <span className="lab-value">{shown.value}</span>
        <span className="lab-unit">{shown.unit}</span>
      </td>
      <td className="number lab-ends">{shown.lower && `${shown.lower} to ${shown.upper}`}</td>
    </>
  );
}

/** A figure beside those of other scenarios, with its change against the first. */
function Beside(
  props: RowProps & { readonly shown: Shown; readonly place: number; readonly hasUnit: boolean },
) {
  const { shown, place, resolved, index } = props;
  const [first, own] = [0, place].map((at) => resolved[at].result?.outputs.get(index)?.value);
  const change = place > 0 && first && own !== undefined ? own / first - 1 : 0;
  return (
    <>
      <span className="lab-value">{shown.value}</span>
      {props.hasUnit && <span className="lab-unit">{shown.unit}</span>}
      {shown.lower && (
        <span className="lab-interval">
          {shown.lower} to {shown.upper}
        </span>
      )}
      {Math.abs(change) >= LEAST_CHANGE && <span className="lab-delta">{signed(change)}</span>}
    </>
  );
}

function NoValue(props: RowProps & { readonly place: number }) {
  const output = props.resolved[props.place].result?.outputs.get(props.index);
  const count = output?.missing.length ?? 0;
  return (
    <span className="lab-missing" title={output?.reason}>
      {count > 0 ? `${count} missing` : "no value"}
    </span>
  );
}
