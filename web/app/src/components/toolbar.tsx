import type { ReactNode } from "react";

/** Controls of what is below them, in one row that wraps. */
export function Toolbar(props: {
  readonly label: string;
  readonly className?: string;
  readonly children: ReactNode;
}) {
  return (
    <div className={`toolbar ${props.className ?? ""}`} role="toolbar" aria-label={props.label}>
      {props.children}
    </div>
  );
}

export function Select(props: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, title: string])[];
  readonly choose: (value: string) => void;
  /** What the label stands for, in full. */
  readonly title?: string;
}) {
  return (
    <label className="field" title={props.title}>
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
