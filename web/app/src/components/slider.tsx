import { type ReactNode, useId } from "react";

/** A slider with its value in a unit, which can also be typed. */
export function Slider(props: {
  readonly label: ReactNode;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  /** A slider of orders of magnitude moves by ratios. */
  readonly isLogarithmic?: boolean;
  readonly shown: string;
  readonly change: (value: number) => void;
  readonly note?: ReactNode;
}) {
  const id = useId();
  const { min, max, isLogarithmic } = props;
  const there = (value: number) =>
    isLogarithmic ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);
  const back = (at: number) => (isLogarithmic ? min * (max / min) ** at : min + (max - min) * at);
  return (
    <div className="slider">
      <div className="slider-head">
        <label htmlFor={id}>{props.label}</label>
        <output htmlFor={id} className="number">
          {props.shown}
        </output>
      </div>
      <input
        id={id}
        type="range"
        min={0}
        max={1000}
        step={1}
        value={Math.round(1000 * Math.min(Math.max(there(props.value), 0), 1))}
        aria-valuetext={props.shown}
        onChange={(event) => props.change(back(Number(event.target.value) / 1000))}
      />
      {props.note && <div className="muted small">{props.note}</div>}
    </div>
  );
}
