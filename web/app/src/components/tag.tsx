import type { ReactNode } from "react";

export type Tone = "plain" | "good" | "warn" | "bad" | "missing" | "accent";

/** A word of status; the word says it, the color only repeats it. */
export function Tag(props: { readonly tone?: Tone; readonly children: ReactNode }) {
  return <span className={`tag ${props.tone ?? "plain"}`}>{props.children}</span>;
}
