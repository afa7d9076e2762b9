// Every output of every scenario, with interval and the change against the first.

import { useState } from "react";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { figure } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import { signed } from "./heroes";
import type { Intervals, Resolved } from "./lab-view";
import { type LabData, LETTERS } from "./types";

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
  const groups = data.outputs
    .map(({ title, variables }) => ({ title, indexes: variables.map((name) => graph.find(name)) }))
    .map((group) => ({ ...group, indexes: group.indexes.filter((one) => isWhole || isKnown(one)) }))
    .filter(({ indexes }) => indexes.length > 0);
  return (
    <Card>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
      <section className="table-scroll" aria-label="Outputs" tabIndex={0}>
        <table className="table lab-outputs">
          <thead>
            <tr>
              <th scope="col">Output</th>
              {resolved.map((one, place) => (
                <th key={LETTERS[place]} scope="col" className="number">
                  <span className={`lab-letter series-${place + 1}`}>{LETTERS[place]}</span>
                  <span className="unseen"> {one.selection.preset}</span>
                </th>
              ))}
            </tr>
          </thead>
          {groups.map(({ title, indexes }) => (
            <tbody key={title}>
              <tr className="lab-group">
                <th scope="rowgroup" colSpan={resolved.length + 1}>
                  {title}
                </th>
              </tr>
              {indexes.map((index) => (
                <tr key={index} className={index === props.target ? "lab-focused" : undefined}>
                  <th scope="row">
                    <button
                      type="button"
                      className="lab-name"
                      aria-pressed={index === props.target}
                      title={graph.variable(index).name}
                      onClick={() => props.choose(graph.variable(index).name)}
                    >
                      {graph.variable(index).meaning}
                    </button>
                  </th>
                  {resolved.map((one, place) => (
                    <td key={LETTERS[place]} className="number">
                      <Cell
                        graph={graph}
                        index={index}
                        resolved={one}
                        intervals={props.intervals[place]}
                        first={place > 0 ? valueAt(0, index) : undefined}
                      />
                    </td>
                  ))}
                </tr>
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

function Cell(props: {
  readonly graph: Graph;
  readonly index: number;
  readonly resolved: Resolved;
  readonly intervals: Intervals;
  readonly first: number | undefined;
}) {
  const output = props.resolved.result?.outputs.get(props.index);
  if (output?.value === undefined) {
    const count = output?.missing.length ?? 0;
    return (
      <span className="lab-missing" title={output?.reason}>
        {count > 0 ? `${count} missing` : "no value"}
      </span>
    );
  }
  const { found, isStale } = props.intervals;
  const interval = found?.get(props.index);
  const unit = props.graph.unit(props.index);
  const shown = figure(
    output.value,
    unit,
    isStale ? undefined : interval?.lower,
    isStale ? undefined : interval?.upper,
  );
  const change = props.first ? output.value / props.first - 1 : 0;
  const isChanged = Math.abs(change) >= LEAST_CHANGE;
  return (
    <>
      <span className="lab-value">{shown.value}</span>
      <span className="lab-unit">{shown.unit}</span>
      {(shown.lower || isChanged) && (
        <span className="lab-interval">
          {shown.lower && `${shown.lower} to ${shown.upper}`}
          {isChanged && <b> {signed(change)}</b>}
        </span>
      )}
    </>
  );
}
