// Every output of every scenario, with interval and the change against the first.

import { Fragment, useState } from "react";
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
  const isAlone = resolved.length === 1;
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
                  <Cells {...props} index={index} />
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

/** An output in every scenario; alone it has its interval beside it, else below and with a change. */
function Cells(props: {
  readonly graph: Graph;
  readonly index: number;
  readonly resolved: readonly Resolved[];
  readonly intervals: readonly Intervals[];
}) {
  const { graph, index, resolved } = props;
  const first = resolved[0].result?.outputs.get(index)?.value;
  return resolved.map((one, place) => {
    const output = one.result?.outputs.get(index);
    const key = LETTERS[place];
    if (output?.value === undefined) {
      const count = output?.missing.length ?? 0;
      return (
        <td key={key} className="number" colSpan={resolved.length === 1 ? 2 : 1}>
          <span className="lab-missing" title={output?.reason}>
            {count > 0 ? `${count} missing` : "no value"}
          </span>
        </td>
      );
    }
    const { found, isStale } = props.intervals[place];
    const interval = isStale ? undefined : found?.get(index);
    const shown = figure(output.value, graph.unit(index), interval?.lower, interval?.upper);
    const value = (
      <>
        <span className="lab-value">{shown.value}</span>
        <span className="lab-unit">{shown.unit}</span>
      </>
    );
    const ends = shown.lower && `${shown.lower} to ${shown.upper}`;
    if (resolved.length === 1) {
      return (
        <Fragment key={key}>
          <td className="number">{value}</td>
          <td className="number lab-ends">{ends}</td>
        </Fragment>
      );
    }
    const change = place > 0 && first ? output.value / first - 1 : 0;
    return (
      <td key={key} className="number">
        {value}
        {ends && <span className="lab-interval">{ends}</span>}
        {Math.abs(change) >= LEAST_CHANGE && <span className="lab-delta">{signed(change)}</span>}
      </td>
    );
  });
}
