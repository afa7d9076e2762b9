// The kinds of cases while they are predicted: what is there, what is under way, for how long.

import { useEffect, useState } from "react";
import type { Loaded } from "../../api/use-api";
import { Card } from "../../components/card";
import { Tag } from "../../components/tag";
import type { Case, Validation } from "./types";

/** Kinds by the name that the command takes, and what the cases call them. */
export const KINDS = [
  { suite: "kernels", kind: "hardware", title: "Kernels and collectives" },
  { suite: "training", kind: "training", title: "Training runs" },
  { suite: "inference", kind: "inference", title: "Inference servers" },
] as const;

export type Part = Loaded<Validation> & { readonly reload: () => void };

export function Progress(props: {
  readonly parts: readonly Part[];
  readonly cases: readonly Case[] | null;
}) {
  const ready = props.parts.filter(({ state }) => state === "ready").length;
  const seconds = useSeconds(ready < KINDS.length);
  return (
    <Card
      title="Predicting"
      about="Once for this version of model and data: the answers are kept for the next opening."
    >
      <p role="status" className="unseen">
        {ready} of {KINDS.length} kinds of cases are predicted
      </p>
      <ul className="validate-progress">
        {KINDS.map(({ suite, kind, title }, place) => {
          const part = props.parts[place]!;
          const count = props.cases?.filter((one) => one.kind === kind).length;
          return (
            <li key={suite} className={part.state === "ready" ? undefined : "under-way"}>
              <span>{title}</span>
              <span className="muted number">{count === undefined ? "" : `${count} cases`}</span>
              <span className="number">
                {part.state === "ready" ? (
                  <Tag tone="good">predicted</Tag>
                ) : part.state === "error" ? (
                  <Tag tone="bad">failed</Tag>
                ) : (
                  <span className="muted">{seconds} s</span>
                )}
              </span>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

function useSeconds(isRunning: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!isRunning) return;
    const timer = window.setInterval(() => setSeconds((before) => before + 1), 1000);
    return () => window.clearInterval(timer);
  }, [isRunning]);
  return seconds;
}

/** The answers that are there as one; kinds share neither suites nor groups. */
export function joined(parts: readonly Part[]): Validation {
  const found = parts.flatMap((part) => (part.state === "ready" ? [part.data] : []));
  return {
    groups: found.flatMap(({ groups }) => groups),
    scores: found.flatMap(({ scores }) => scores),
    leaderboard: found.flatMap(({ leaderboard }) => leaderboard ?? []),
  };
}
