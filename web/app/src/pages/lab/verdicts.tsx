// What holds and what does not: refusals, contradictions, constraints, approximations, and what the
// changed inputs changed about how the answer is computed.

import { Card } from "../../components/card";
import { Tag } from "../../components/tag";
import { figureText } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import type { Result, Verdict } from "./types";

export function Verdicts(props: {
  readonly graph: Graph;
  readonly result: Result;
  readonly base: Result | null;
}) {
  const { graph, result, base } = props;
  const violated = result.constraints.filter(({ status }) => status === "false");
  const held = result.constraints.filter(({ status }) => status === "true");
  const unknown = result.constraints.filter(({ status }) => status === "unknown");
  const changes = base ? changesOf(graph, base, result) : [];
  const { notes } = result.scenario;
  return (
    <Card>
      <p className="lab-summary" data-testid="constraints" data-took={result.took.toFixed(2)}>
        {violated.length > 0 ? (
          <Tag tone="bad">{violated.length} violated</Tag>
        ) : (
          <Tag tone="good">no constraint violated</Tag>
        )}{" "}
        <span className="muted small">
          {held.length} of {result.constraints.length} constraints hold
          {unknown.length > 0 && `, ${unknown.length} lack inputs`}
        </span>
      </p>
      <ul className="lab-verdicts">
        {result.refused.map((text) => (
          <li key={text}>
            <Tag tone="bad">impossible</Tag> {text}
          </li>
        ))}
        {result.conflicts.map(({ variable, given, computed, relation }) => (
          <li key={`conflict ${variable}`}>
            <Tag tone="bad">contradiction</Tag> {graph.variable(variable).name} is given as{" "}
            {figureText(given, graph.unit(variable))}, but <code>{relation}</code> gives{" "}
            {figureText(computed, graph.unit(variable))}
          </li>
        ))}
        {violated.map((verdict) => (
          <li key={verdict.name}>
            <Tag tone="bad">violated</Tag> {verdict.meaning || verdict.name}{" "}
            <code title={verdict.text}>{verdict.name}</code>
          </li>
        ))}
        {result.bounds.map((index) => (
          <li key={`bounds ${index}`}>
            <Tag tone="bad">out of bounds</Tag> {graph.variable(index).meaning}{" "}
            <code>{graph.variable(index).name}</code>
          </li>
        ))}
        {result.invalid.map((verdict) => (
          <li key={verdict.name}>
            <Tag tone="warn">outside its validity</Tag> <code>{verdict.name}</code> holds where{" "}
            <code>{cut(verdict.text)}</code>
          </li>
        ))}
        {changes.map((change) => (
          <li key={change.text} data-testid="change">
            <Tag tone={change.tone}>{change.word}</Tag> {change.text}
          </li>
        ))}
      </ul>
      {unknown.length > 0 && (
        <details>
          <summary className="muted small">Constraints that lack inputs</summary>
          <ul className="lab-verdicts">
            {unknown.map((verdict) => (
              <li key={verdict.name} className="lab-missing">
                {verdict.meaning || verdict.name} <code>{verdict.name}</code>
              </li>
            ))}
          </ul>
        </details>
      )}
      {notes.length > 0 && (
        <details>
          <summary className="muted small">
            {notes.length === 1 ? "1 note" : `${notes.length} notes`} on the entries
          </summary>
          <ul className="lab-verdicts">
            {notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      )}
    </Card>
  );
}

interface Change {
  readonly tone: "accent" | "missing" | "bad" | "good";
  readonly word: string;
  readonly text: string;
}

/** What differs from the scenario without the changed inputs: relations, gaps and verdicts. */
export function changesOf(graph: Graph, base: Result, result: Result): Change[] {
  const found: Change[] = [];
  const before = new Map(base.switches.map((one) => [one.variable, one]));
  const after = new Map(result.switches.map((one) => [one.variable, one]));
  for (const { variable, left, used } of result.switches) {
    if (before.get(variable)?.used === used) continue;
    const text = `${graph.variable(variable).name} now follows ${used}: ${left} is not valid here`;
    found.push({ tone: "accent", word: "relation", text });
  }
  for (const { variable, left } of base.switches) {
    if (after.has(variable) || result.point.given.has(variable)) continue;
    const text = `${graph.variable(variable).name} now follows ${left}, which is valid here`;
    found.push({ tone: "accent", word: "relation", text });
  }
  const [had, has] = [new Set(base.missing()), result.missing()];
  for (const index of has) {
    if (had.has(index)) continue;
    found.push({
      tone: "missing",
      word: "missing",
      text: `${graph.variable(index).name} is needed now`,
    });
  }
  for (const [index, output] of result.outputs) {
    if (output.value !== undefined || base.outputs.get(index)?.value === undefined) continue;
    const text = `${graph.variable(index).meaning} has no value now`;
    found.push({ tone: "missing", word: "lost", text });
  }
  const status = new Map(base.constraints.map((verdict) => [verdict.name, verdict.status]));
  for (const verdict of result.constraints) {
    if (status.get(verdict.name) === verdict.status || verdict.status === "false") continue;
    if (verdict.status === "unknown") continue;
    found.push({ tone: "good", word: "holds now", text: label(verdict) });
  }
  return found;
}

function label(verdict: Verdict): string {
  return verdict.meaning || verdict.name;
}

function cut(text: string): string {
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
