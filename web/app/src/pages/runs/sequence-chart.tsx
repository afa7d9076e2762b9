import type { Measured } from "./types";

const WIDTH = 250;
const HEIGHT = 116;

/** A confidence sequence: the interval at every look, narrowing around the ratio. */
export function SequenceChart(props: {
  readonly name: string;
  readonly looks: readonly Measured[];
  readonly threshold: number;
  readonly tone: string;
}) {
  const { looks, threshold } = props;
  const last = looks.at(-1)!;
  // The scale is that of the last look and of the lines to clear; early looks are cut.
  const ends = [1 / (1 + threshold), last.lo, 1 + threshold, last.hi].map((one) =>
    Math.log(Math.min(Math.max(one, 0.05), 20)),
  );
  const room = 0.4 * (Math.max(...ends) - Math.min(...ends)) || 0.1;
  const low = Math.min(...ends) - room;
  const high = Math.max(...ends) + room;
  const x = (at: number) => 4 + ((WIDTH - 56) * at) / (looks.length - 1);
  const y = (ratio: number) => {
    const level = Math.min(Math.max(Math.log(Math.max(ratio, 1e-6)), low), high);
    return 6 + (HEIGHT - 12) * ((high - level) / (high - low));
  };
  const point = (at: number, ratio: number) => `${x(at).toFixed(1)} ${y(ratio).toFixed(1)}`;
  const upper = looks.map((one, at) => point(at, one.hi));
  const lower = looks.map((one, at) => point(at, one.lo)).reverse();
  const middle = looks.map((one, at) => point(at, one.value));
  return (
    <figure className="sequence">
      <figcaption>
        {props.name} <span className="muted">{looks.length + 1} pairs</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        className={props.tone}
        role="img"
        aria-label={`${props.name}: ${last.value.toFixed(3)}x, ${last.lo.toFixed(3)} to ${last.hi.toFixed(3)} after ${looks.length} looks`}
      >
        <path className="sequence-band" d={`M${[...upper, ...lower].join("L")}Z`} />
        <line className="sequence-unity" x1={4} x2={WIDTH - 52} y1={y(1)} y2={y(1)} />
        <path className="sequence-line" d={`M${middle.join("L")}`} />
        <text x={WIDTH - 46} y={y(last.value) + 4}>
          {last.value.toFixed(2)}x
        </text>
      </svg>
    </figure>
  );
}
