import { shown } from "../../design/quantity";
import type { Term } from "./types";

/** The median step from its floor to what was observed: each term begins where the last ended. */
export function Waterfall(props: {
  readonly terms: readonly Term[];
  readonly observedNs: number;
  readonly predicted?: { readonly ns: number; readonly lo: number; readonly hi: number } | null;
  /** The term whose nodes are shown, and how to choose another. */
  readonly chosen?: string | null;
  readonly choose?: ((term: string) => void) | undefined;
}) {
  const terms = props.terms.filter((term) => term.ns > 0);
  const most = Math.max(props.observedNs, props.predicted?.hi ?? 0) * 1.02;
  const share = (ns: number) => `${(100 * ns) / most}%`;
  const time = (ns: number) => shown({ value: ns / 1e9, unit: "s" });
  let before = 0;
  return (
    <ul className="waterfall" aria-label="Where the time of the median step goes">
      {terms.map((term) => {
        const start = before;
        before += term.ns;
        return (
          <li className="waterfall-row" key={term.name}>
            {props.choose ? (
              <button
                type="button"
                className="waterfall-name waterfall-term"
                aria-pressed={props.chosen === term.name}
                onClick={() => props.choose?.(term.name)}
              >
                {term.name.replaceAll("_", " ")}
              </button>
            ) : (
              <span className="waterfall-name">{term.name.replaceAll("_", " ")}</span>
            )}
            <span className="waterfall-track" aria-hidden="true">
              <span
                className={term.name === "floor" ? "waterfall-bar floor" : "waterfall-bar"}
                style={{ left: share(start), width: share(term.ns) }}
              />
            </span>
            <span className="waterfall-value number">{time(term.ns)}</span>
            <span className="waterfall-share number muted">
              {((100 * term.ns) / props.observedNs).toFixed(1)} %
            </span>
          </li>
        );
      })}
      <li className="waterfall-row total">
        <span className="waterfall-name">observed</span>
        <span className="waterfall-track" aria-hidden="true">
          <span
            className="waterfall-bar observed"
            style={{ left: 0, width: share(props.observedNs) }}
          />
        </span>
        <span className="waterfall-value number">{time(props.observedNs)}</span>
        <span className="waterfall-share number muted">100 %</span>
      </li>
      {props.predicted && (
        <li className="waterfall-row">
          <span className="waterfall-name">predicted</span>
          <span className="waterfall-track" aria-hidden="true">
            <span
              className="waterfall-bar predicted-range"
              style={{
                left: share(props.predicted.lo),
                width: share(props.predicted.hi - props.predicted.lo),
              }}
            />
            <span className="waterfall-dot" style={{ left: share(props.predicted.ns) }} />
          </span>
          <span className="waterfall-value number">{time(props.predicted.ns)}</span>
          <span className="waterfall-share number muted">
            {((100 * props.predicted.ns) / props.observedNs).toFixed(0)} %
          </span>
        </li>
      )}
    </ul>
  );
}
