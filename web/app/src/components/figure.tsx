import type { ReactNode } from "react";
import { type Quantity, shownInterval, shownValue } from "../design/quantity";

/** A number: its value and unit large, its interval, and what it was measured or computed on. */
export function Figure(props: {
  readonly label: ReactNode;
  readonly quantity: Quantity | null;
  /** Where the number comes from: "measured on H200", "predicted". */
  readonly basis?: ReactNode;
  readonly size?: "hero" | "plain";
  /** Why there is no number, where there is none. */
  readonly missing?: string;
  readonly children?: ReactNode;
}) {
  const { quantity } = props;
  const shown = quantity ? shownValue(quantity) : null;
  const interval = quantity ? shownInterval(quantity) : null;
  return (
    <div className={`figure ${props.size ?? "plain"}`}>
      <div className="figure-label">{props.label}</div>
      {shown ? (
        <div className="figure-value number">
          {shown.number} <span className="figure-unit">{shown.unit}</span>
        </div>
      ) : (
        <div className="figure-value figure-missing">{props.missing ?? "not known"}</div>
      )}
      {interval && <div className="figure-interval number">{interval}</div>}
      {props.basis && <div className="figure-basis">{props.basis}</div>}
      {props.children}
    </div>
  );
}
