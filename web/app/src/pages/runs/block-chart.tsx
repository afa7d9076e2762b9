/** Blocks over time: control and treatment as dots; dropped ones hollow. */
export function BlockChart(props: {
  readonly blocks: readonly Readonly<Record<string, unknown>>[];
}) {
  const rows = props.blocks.flatMap((one) => {
    const value = Number(one["value"]);
    return Number.isFinite(value)
      ? [{ value, arm: String(one["arm"]), isDropped: Boolean(one["dropped"]) }]
      : [];
  });
  if (rows.length < 2) return null;
  const width = 900;
  const height = 150;
  const most = Math.max(...rows.map((one) => one.value)) * 1.05;
  const x = (place: number) => 8 + ((width - 16) * place) / (rows.length - 1);
  const y = (value: number) => 6 + (height - 12) * (1 - value / most);
  return (
    <svg
      className="block-chart"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`${rows.length} blocks, the highest ${most.toPrecision(4)}`}
    >
      {rows.map((one, place) => (
        <circle
          // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no other identity.
          key={place}
          className={`${one.arm} ${one.isDropped ? "dropped" : ""}`}
          cx={x(place)}
          cy={y(one.value)}
          r={3.2}
        />
      ))}
    </svg>
  );
}
