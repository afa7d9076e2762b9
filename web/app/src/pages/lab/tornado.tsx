// Which inputs move the output most: a bar for each, from its lower to its upper end.

import { useCallback, useState } from "react";
import { Card } from "../../components/card";
import { Loading } from "../../components/states";
import { Select } from "../../components/toolbar";
import { figureText } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import { NUDGE, type Swing, tornado } from "../../tape/questions";
import { useSliced } from "./sliced";
import type { Result } from "./types";

const MOST = 14;

export function Tornado(props: {
  readonly graph: Graph;
  readonly result: Result;
  readonly target: number;
}) {
  const { graph, result, target } = props;
  const [kind, setKind] = useState("stated");
  const { result: swings, isStale } = useSliced<Swing[]>(
    useCallback(
      () => tornado(result.model, result.scenario, result.point, target, kind === "stated"),
      [result, target, kind],
    ),
  );
  const value = result.outputs.get(target)?.value;
  const about =
    kind === "stated"
      ? "Each input moves over the 90 % interval that its source states; the others stay."
      : `Each input moves by ${100 * NUDGE} % or over its stated interval; the others stay.`;
  return (
    <Card
      title={`What moves ${graph.variable(target).meaning}`}
      about={about}
      actions={
        <Select
          label="Inputs"
          value={kind}
          options={[
            ["stated", "with a stated uncertainty"],
            ["all", "all"],
          ]}
          choose={setKind}
        />
      }
    >
      {value === undefined ? (
        <p className="lab-missing">This output has no value here, so that nothing can move it.</p>
      ) : swings === undefined ? (
        <Loading what="Moving each input" />
      ) : swings.length === 0 ? (
        <p className="muted">No input with a stated uncertainty reaches this output.</p>
      ) : (
        <div className={isStale ? "stale" : undefined} aria-busy={isStale}>
          <Bars graph={graph} target={target} middle={value} swings={swings.slice(0, MOST)} />
          {swings.length > MOST && (
            <p className="muted small">
              {swings.length - MOST} inputs that move it less are left out.
            </p>
          )}
        </div>
      )}
    </Card>
  );
}

function Bars(props: {
  readonly graph: Graph;
  readonly target: number;
  readonly middle: number;
  readonly swings: readonly Swing[];
}) {
  const { graph, target, middle } = props;
  const all = props.swings.flatMap(({ outputs }) => outputs).filter((one) => one !== undefined);
  const [low, high] = [Math.min(...all, middle), Math.max(...all, middle)];
  const place = (value: number) => (100 * (value - low)) / (high - low || 1);
  const unit = graph.unit(target);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <section className="table-scroll" aria-label="Tornado" tabIndex={0}>
      <table className="table lab-tornado">
        <thead>
          <tr>
            <th scope="col">Input</th>
            <th scope="col" className="number">
              From
            </th>
            <th scope="col">
              {figureText(low, unit)} to {figureText(high, unit)}
            </th>
            <th scope="col" className="number">
              To
            </th>
          </tr>
        </thead>
        <tbody>
          {props.swings.map(({ input, ends, outputs }) => {
            const [first, second] = outputs.map((output) => output ?? middle);
            const left = place(Math.min(first, second));
            const width = place(Math.max(first, second)) - left;
            const at = (one: number | undefined) =>
              one === undefined ? "no value" : figureText(one, unit);
            return (
              <tr key={input}>
                <th scope="row">
                  <span title={graph.variable(input).name}>{graph.variable(input).meaning}</span>
                </th>
                <td className="number small">{figureText(ends[0], graph.unit(input))}</td>
                <td className="lab-bar-cell">
                  <span className="lab-bar" style={{ left: `${left}%`, width: `${width}%` }} />
                  <span className="lab-middle" style={{ left: `${place(middle)}%` }} />
                  <span className="unseen">
                    {at(outputs[0])} to {at(outputs[1])}
                  </span>
                </td>
                <td className="number small">{figureText(ends[1], graph.unit(input))}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
