// The output in focus, large, for every scenario.

import { figure } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import { titleOf } from "./scenarios";
import { type Intervals, LETTERS, type Resolved } from "./types";

export function Heroes(props: {
  readonly graph: Graph;
  readonly resolved: readonly Resolved[];
  readonly intervals: readonly Intervals[];
  readonly target: number;
}) {
  const { graph, target } = props;
  const first = props.resolved[0].result?.outputs.get(target)?.value;
  return (
    <section className="card" aria-label="Output in focus">
      <p className="lab-focus">{graph.variable(target).meaning}</p>
      <div className="lab-heroes">
        {props.resolved.map((one, place) => {
          const output = one.result?.outputs.get(target);
          const value = output?.value;
          const { found, isStale } = props.intervals[place];
          const interval = isStale ? undefined : found?.get(target);
          const shown =
            value === undefined
              ? null
              : figure(value, graph.unit(target), interval?.lower, interval?.upper);
          const change = place > 0 && value !== undefined && first ? value / first - 1 : null;
          return (
            <div key={LETTERS[place]} className={`figure hero series-${place + 1}`}>
              <div className="figure-label">
                <strong>{LETTERS[place]}</strong> {titleOf(one)}
              </div>
              {shown ? (
                <div
                  className="figure-value number"
                  data-testid={`hero-${LETTERS[place]}`}
                  data-value={value}
                >
                  {shown.value} <span className="figure-unit">{shown.unit.trim()}</span>
                </div>
              ) : one.result === null && one.error === null ? (
                <div className="figure-value muted">{"\u2026"}</div>
              ) : (
                <div className="figure-value figure-missing">
                  {output?.missing.length
                    ? `needs ${output.missing.length} more ${output.missing.length === 1 ? "input" : "inputs"}`
                    : (output?.reason ?? "not known")}
                </div>
              )}
              <div className="figure-interval number">
                {shown?.lower
                  ? `90 %: ${shown.lower} to ${shown.upper}`
                  : isStale
                    ? "interval follows"
                    : "\u00a0"}
              </div>
              {change !== null && (
                <div className="lab-change number">{signed(change)} against A</div>
              )}
            </div>
          );
        })}
      </div>
    </section>
  );
}

export function signed(change: number): string {
  const percent = 100 * change;
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  return `${percent >= 0 ? "+" : "-"}${Math.abs(percent).toFixed(digits)} %`;
}
