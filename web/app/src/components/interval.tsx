/** A value with its interval on a scale that several rows share. */
export function Interval(props: {
  readonly value: number | null;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly from: number;
  readonly to: number;
  /** Ratios are drawn on a scale of ratios. */
  readonly isRatio?: boolean;
  readonly mark?: number;
  readonly tone?: string;
  readonly label: string;
  /** What was forecast, drawn behind it. */
  readonly forecast?: { readonly value: number; readonly lo: number; readonly hi: number } | null;
}) {
  const width = 260;
  const scale = (value: number) => (props.isRatio ? Math.log(Math.max(value, 1e-9)) : value);
  const x = (value: number) => {
    const share = (scale(value) - scale(props.from)) / (scale(props.to) - scale(props.from) || 1);
    return 6 + (width - 12) * Math.min(Math.max(share, 0), 1);
  };
  const { value, lo, hi, forecast } = props;
  return (
    <svg
      className={`interval ${props.tone ?? ""}`}
      viewBox={`0 0 ${width} 20`}
      role="img"
      aria-label={props.label}
    >
      {props.mark !== undefined && (
        <line className="interval-mark" x1={x(props.mark)} x2={x(props.mark)} y1={0} y2={20} />
      )}
      {forecast && (
        <rect
          className="interval-forecast"
          x={x(forecast.lo)}
          y={4}
          width={Math.max(x(forecast.hi) - x(forecast.lo), 2)}
          height={12}
          rx={3}
        />
      )}
      {lo !== null && hi !== null && (
        <line className="interval-range" x1={x(lo)} x2={x(hi)} y1={10} y2={10} />
      )}
      {value !== null && <circle className="interval-value" cx={x(value)} cy={10} r={4.5} />}
    </svg>
  );
}
