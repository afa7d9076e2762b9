import type { ReactNode } from "react";
import { Card } from "../components/card";
import { Tag } from "../components/tag";
import type { Receipt } from "./types";

/** What stands against a value: missing inputs, violated constraints, conflicts, notes. */
export function Findings(props: {
  readonly receipt: Receipt;
  /** What can be done about a missing input. */
  readonly act?: (name: string, unit: string) => ReactNode;
}) {
  const { receipt } = props;
  const violated = receipt.constraints.filter((one) => one.status === "false");
  const { notes } = receipt;
  if (!receipt.missing.length && !violated.length && !receipt.conflicts.length && !notes.length) {
    return null;
  }
  return (
    <Card title="Read this with it" className="findings">
      <ul className="finding-list">
        {receipt.missing.map((gap) => (
          <li key={gap.name}>
            <Tag tone="missing">missing</Tag> <span className="mono">{gap.name}</span> [{gap.unit}]:{" "}
            {gap.meaning} {props.act?.(gap.name, gap.unit)}
          </li>
        ))}
        {violated.map((one) => (
          <li key={one.name}>
            <Tag tone="bad">violated</Tag> <span className="mono">{one.name}</span>:{" "}
            {one.meaning || one.text}
          </li>
        ))}
        {receipt.conflicts.map((one) => (
          <li key={one.name}>
            <Tag tone="bad">contradiction</Tag> <span className="mono">{one.name}</span>: given as{" "}
            {one.given} {one.unit}, computed as {one.computed} {one.unit}
          </li>
        ))}
        {notes.map((note) => (
          <li key={note}>
            <Tag tone="warn">note</Tag> {note}
          </li>
        ))}
      </ul>
    </Card>
  );
}
