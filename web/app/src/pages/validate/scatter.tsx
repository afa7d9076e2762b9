// Predicted against observed on logarithmic axes. Figures of all kinds share the chart, so that each
// is scaled by nothing: decades apart are kinds apart, and the distance from the line is the error.

import { useMemo } from "react";
import type { Point } from "./types";

const SIZE = 520;
const MARGIN = 46;
/** Thousands, millions: decades as people say them. */
const PREFIXES = ["", "k", "M", "G", "T"];

export function Scatter(props: {
  readonly points: readonly Point[];
  readonly chosen: string;
  readonly choose: (key: string) => void;
}) {
  const { points } = props;
  const frame = useMemo(() => frameOf(points), [points]);
  const place = (value: number) =>
    MARGIN + ((Math.log10(value) - frame.low) / (frame.high - frame.low)) * (SIZE - MARGIN - 12);
  const x = (value: number) => place(value);
  const y = (value: number) => SIZE - place(value);
  const ends = [10 ** frame.low, 10 ** frame.high] as const;
  const isInside = (value: number) => ends[0] <= value && value <= ends[1];
  const shown = points.filter(
    ({ row, predicted }) => isInside(row.observed) && isInside(predicted),
  );
  const left = points.length - shown.length;
  const label = `${points.length} figures, predicted against observed on logarithmic axes`;
  return (
    <>
      <svg
        className="validate-chart"
        viewBox={`0 0 ${SIZE} ${SIZE}`}
        role="group"
        aria-label={label}
      >
        {frame.ticks.map((tick) => (
          <g key={tick}>
            <line
              className="validate-grid"
              x1={x(tick)}
              x2={x(tick)}
              y1={y(ends[0])}
              y2={y(ends[1])}
            />
            <line
              className="validate-grid"
              x1={x(ends[0])}
              x2={x(ends[1])}
              y1={y(tick)}
              y2={y(tick)}
            />
            <text x={x(tick)} y={y(ends[0]) + 16} textAnchor="middle">
              {power(tick)}
            </text>
            <text x={x(ends[0]) - 6} y={y(tick)} dy="0.35em" textAnchor="end">
              {power(tick)}
            </text>
          </g>
        ))}
        {[1.2, 1 / 1.2].map((ratio) => (
          <line
            key={ratio}
            className="validate-band"
            x1={x(ends[0])}
            y1={y(ends[0] * ratio)}
            x2={x(ends[1])}
            y2={y(ends[1] * ratio)}
          />
        ))}
        <line
          className="validate-exact"
          x1={x(ends[0])}
          y1={y(ends[0])}
          x2={x(ends[1])}
          y2={y(ends[1])}
        />
        {shown.map((point) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the table of figures is the keyboard's way.
          <circle
            key={point.key}
            data-case={point.key}
            className={[
              point.row.in_sample ? "in-sample" : "unseen-figure",
              point.key === props.chosen ? "chosen" : "",
            ].join(" ")}
            cx={x(point.row.observed)}
            cy={y(point.predicted)}
            r={point.key === props.chosen ? 6 : 3.2}
            onClick={() => props.choose(point.key)}
          >
            <title>{`${point.row.case}: observed ${point.row.observed} ${point.row.unit}, predicted ${Number(point.predicted.toPrecision(4))}`}</title>
          </circle>
        ))}
        <text className="validate-axis" x={SIZE / 2} y={SIZE - 6} textAnchor="middle">
          observed
        </text>
        <text
          className="validate-axis"
          x={12}
          y={SIZE / 2}
          textAnchor="middle"
          transform={`rotate(-90 12 ${SIZE / 2})`}
        >
          predicted
        </text>
      </svg>
      {left > 0 && (
        <p className="muted small">
          {left} {left === 1 ? "figure lies" : "figures lie"} outside the frame; a filter shows{" "}
          {left === 1 ? "it" : "them"}.
        </p>
      )}
    </>
  );
}

/** The decades that hold all but the outermost half percent on either side. */
function frameOf(points: readonly Point[]): { low: number; high: number; ticks: number[] } {
  const logs = points
    .flatMap(({ row, predicted }) => [Math.log10(row.observed), Math.log10(predicted)])
    .sort((one, other) => one - other);
  const cut = points.length > 20 ? Math.ceil(0.005 * logs.length) : 0;
  const low = Math.floor(logs[cut]);
  const high = Math.max(Math.ceil(logs[logs.length - 1 - cut]), low + 1);
  const every = Math.max(1, Math.ceil((high - low) / 8));
  const ticks: number[] = [];
  for (let at = low; at <= high; at += every) ticks.push(10 ** at);
  return { low, high, ticks };
}

function power(value: number): string {
  const exponent = Math.round(Math.log10(value));
  if (exponent < 0) return exponent > -4 ? value.toFixed(-exponent) : `1e${exponent}`;
  const prefix = PREFIXES[Math.floor(exponent / 3)];
  return prefix === undefined ? `1e${exponent}` : `${10 ** (exponent % 3)}${prefix}`;
}
