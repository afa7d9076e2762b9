// Operations of a step: predicted, observed and the difference; each opens to its layers.

import { Fragment, useState } from "react";
import { shown, shownInterval } from "../../design/quantity";
import { byOperation, familyOf, type OperationRow, partOf, type StepNode } from "./step-nodes";

export function StepTable(props: {
  readonly nodes: readonly StepNode[];
  readonly term: string | null;
  readonly operation: string | null;
  readonly choose: (operation: string | null) => void;
}) {
  const { term } = props;
  const rows = byOperation(props.nodes);
  const ordered = term
    ? [...rows].sort((one, other) => partOf(other.nodes, term) - partOf(one.nodes, term))
    : rows;
  const most = Math.max(...rows.map((row) => Math.max(row.observed ?? 0, row.hi ?? 0)), 1);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <section className="table-scroll" aria-label="Operations of the step" tabIndex={0}>
      <table className="table step-table">
        <thead>
          <tr>
            <th scope="col">Operation</th>
            <th scope="col" className="number">
              Predicted
            </th>
            <th scope="col" className="number">
              Observed
            </th>
            <th scope="col" className="number">
              Difference
            </th>
            <th scope="col" className="step-bars-head">
              Side by side
            </th>
            {term && (
              <th scope="col" className="number">
                {term.replaceAll("_", " ")}
              </th>
            )}
            <th scope="col">Bound</th>
          </tr>
        </thead>
        <tbody>
          {ordered.map((row) => (
            <Operation key={row.name} {...props} row={row} most={most} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Operation(props: {
  readonly row: OperationRow;
  readonly most: number;
  readonly term: string | null;
  readonly operation: string | null;
  readonly choose: (operation: string | null) => void;
}) {
  const { row, term } = props;
  const [isOpen, setOpen] = useState(false);
  const isChosen = row.nodes[0]!.operation === props.operation && props.operation !== null;
  const layers = row.nodes.filter((node) => node.layer !== null);
  const widest = Math.max(
    ...layers.map((node) => Math.max(node.observed_ns ?? 0, node.hi_ns ?? 0)),
    1,
  );
  return (
    <Fragment>
      <tr className={isChosen ? "step-chosen" : undefined}>
        <th scope="row">
          <button
            type="button"
            className="step-operation"
            aria-pressed={isChosen}
            onClick={() => props.choose(isChosen ? null : row.nodes[0]!.operation)}
          >
            <span
              className={`step-swatch ${familyOf(row.nodes[0]!.operation)}`}
              aria-hidden="true"
            />
            {row.name.replaceAll("+", " + ")}
          </button>
          {layers.length > 1 && (
            <button
              type="button"
              className="step-layers muted small"
              aria-expanded={isOpen}
              onClick={() => setOpen(!isOpen)}
            >
              {layers.length} layers<span className="unseen"> of {row.name}</span>
            </button>
          )}
        </th>
        <Figures
          expected={row.expected}
          lo={row.lo}
          hi={row.hi}
          observed={row.observed}
          residual={row.residual}
          most={props.most}
        />
        {term && <td className="number">{time(partOf(row.nodes, term))}</td>}
        <td className="muted">{row.bound ?? "-"}</td>
      </tr>
      {isOpen &&
        layers.map((node) => (
          <tr key={node.layer} className="step-layer">
            <th scope="row">layer {node.layer}</th>
            <Figures
              expected={node.expected_ns}
              lo={node.lo_ns}
              hi={node.hi_ns}
              observed={node.observed_ns}
              residual={node.residual_ns}
              most={widest}
            />
            {term && <td className="number">{time(node.terms[term] ?? 0)}</td>}
            <td className="muted">{node.bound ?? "-"}</td>
          </tr>
        ))}
    </Fragment>
  );
}

/** The cells of an operation or of one of its layers; bars share the scale of their rows. */
function Figures(props: {
  readonly expected: number | null;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly observed: number | null;
  readonly residual: number | null;
  readonly most: number;
}) {
  const { expected, lo, hi, observed, residual, most } = props;
  const share = (ns: number) => `${(100 * ns) / most}%`;
  const isOutside =
    observed !== null && lo !== null && hi !== null && (observed < lo || observed > hi);
  const quantity = {
    value: (expected ?? 0) / 1e9,
    unit: "s",
    lo: lo === null ? null : lo / 1e9,
    hi: hi === null ? null : hi / 1e9,
  };
  return (
    <>
      <td className="number" title={expected === null ? undefined : intervalText(quantity)}>
        {expected === null ? <span className="muted">not predicted</span> : shown(quantity)}
      </td>
      <td className="number">
        {observed === null ? <span className="muted">did not run</span> : time(observed)}
      </td>
      <td className={isOutside ? "number step-outside" : "number"}>
        {residual === null ? "-" : `${residual < 0 ? "\u2212" : "+"}${roughly(Math.abs(residual))}`}
        {isOutside && <span className="unseen"> outside its interval</span>}
      </td>
      <td className="step-bars" aria-hidden="true">
        {expected !== null && (
          <span className="step-bar predicted" style={{ width: share(expected) }}>
            {lo !== null && hi !== null && (
              <span
                className="step-range"
                style={{
                  left: `${(100 * lo) / Math.max(expected, 1)}%`,
                  width: `${(100 * (hi - lo)) / Math.max(expected, 1)}%`,
                }}
              />
            )}
          </span>
        )}
        <span className="step-bar observed" style={{ width: share(observed ?? 0) }} />
      </td>
    </>
  );
}

function intervalText(quantity: Parameters<typeof shownInterval>[0]): string | undefined {
  const interval = shownInterval(quantity);
  return interval === null ? undefined : `90 %: ${interval}`;
}

/** Three digits: no prediction is better than that. */
function roughly(ns: number): string {
  return shown({ value: ns / 1e9, unit: "s", lo: 0, hi: ns / 1e9 });
}

function time(ns: number): string {
  return shown({ value: ns / 1e9, unit: "s" });
}
