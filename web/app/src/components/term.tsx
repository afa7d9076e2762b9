// Terms of the field with their meaning on hover and focus, from the glossary of the documentation.

import { type ReactNode, useEffect, useId, useState } from "react";
import { get } from "../api/client";
import { isStatic } from "../api/static";

interface Entry {
  readonly term: string;
  readonly meaning: string;
}

let known: Promise<ReadonlyMap<string, string>> | null = null;

function glossary(): Promise<ReadonlyMap<string, string>> {
  if (isStatic()) return Promise.resolve(new Map());
  known ??= get<readonly Entry[]>("glossary").then(
    (terms) => new Map(terms.map((one) => [one.term.toLowerCase(), one.meaning])),
    () => new Map(),
  );
  return known;
}

const ACRONYM = /\b([A-Z]{2,5})\b/;

/** A sentence whose acronyms, such as MFU or PUE, are explained where the glossary has them. */
export function Terms(props: { readonly text: string }) {
  return props.text.split(ACRONYM).map((part, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: parts of one sentence do not move.
    at % 2 === 1 ? <Term key={at}>{part}</Term> : part,
  );
}

/** A term; without an entry in the glossary it is plain text. */
export function Term(props: { readonly name?: string; readonly children: ReactNode }) {
  const id = useId();
  const name = (props.name ?? String(props.children)).toLowerCase();
  const [meaning, setMeaning] = useState<string | null>(null);
  useEffect(() => {
    let isHere = true;
    glossary().then((terms) => {
      if (isHere) setMeaning(terms.get(name) ?? null);
    });
    return () => {
      isHere = false;
    };
  }, [name]);
  if (!meaning) return <>{props.children}</>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: its meaning must be reachable by keyboard.
    <span className="term" tabIndex={0} aria-describedby={id}>
      {props.children}
      <span className="term-meaning" role="tooltip" id={id}>
        {meaning}
      </span>
    </span>
  );
}
