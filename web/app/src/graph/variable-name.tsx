import { Fragment } from "react";

/** The name of a variable, which may break after its dots and underscores. */
export function VariableName(props: { readonly name: string }) {
  return (
    <span className="mono variable-name">
      {props.name.split(/(?<=[._])/).map((part, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a name keep their order.
        <Fragment key={at}>
          {part}
          <wbr />
        </Fragment>
      ))}
    </span>
  );
}
