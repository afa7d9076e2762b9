/** A share of a whole as a bar and a percentage. */
export function Share(props: { readonly value: number; readonly label?: string }) {
  const percent = 100 * Math.min(Math.max(props.value, 0), 1);
  return (
    <span className="share">
      <span className="share-bar" aria-hidden="true">
        <span style={{ width: `${percent}%` }} />
      </span>
      <span className="number">
        {props.label ?? `${(100 * props.value).toFixed(percent < 10 ? 1 : 0)} %`}
      </span>
    </span>
  );
}
