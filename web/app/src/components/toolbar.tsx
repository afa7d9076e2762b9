import type { ReactNode } from "react";

/** Controls of what is below them, in one row that wraps. */
export function Toolbar(props: { readonly label: string; readonly children: ReactNode }) {
  return (
    <div className="toolbar" role="toolbar" aria-label={props.label}>
      {props.children}
    </div>
  );
}

export function Select(props: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, title: string])[];
  readonly choose: (value: string) => void;
}) {
  return (
    <label className="field">
      <span className="field-label">{props.label}</span>
      <select
        className="select"
        value={props.value}
        onChange={(event) => props.choose(event.target.value)}
      >
        {props.options.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}
