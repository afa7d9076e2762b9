/** A small line without axes; what it shows is said by its label. */
export function Spark(props: {
  readonly values: readonly (number | null)[];
  readonly label: string;
  /** The place of the present value, which gets a dot. */
  readonly at?: number;
  /** The value that fills the height, such as a limit. */
  readonly top?: number | null;
  readonly width?: number;
  readonly height?: number;
}) {
  const { width = 120, height = 32 } = props;
  const known = props.values.filter((one): one is number => one !== null && Number.isFinite(one));
  if (known.length < 2) return null;
  const low = props.top ? 0 : Math.min(...known);
  const high = props.top ?? Math.max(...known);
  const span = high - low || 1;
  const x = (place: number) => 3 + ((width - 6) * place) / (props.values.length - 1);
  const y = (value: number) =>
    3 + (height - 6) * (1 - Math.min(Math.max((value - low) / span, 0), 1));
  const parts: string[] = [];
  props.values.forEach((value, place) => {
    if (value === null || !Number.isFinite(value)) return;
    const isStart = place === 0 || props.values[place - 1] === null;
    parts.push(`${isStart ? "M" : "L"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`);
  });
  const marked = props.at === undefined ? null : (props.values[props.at] ?? null);
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={props.label}
    >
      <path d={parts.join("")} />
      {marked !== null && <circle cx={x(props.at!)} cy={y(marked)} r={3} />}
    </svg>
  );
}
