// A scenario as others read it: a link, a command, a file.

import { fromBase, type Graph, toBase } from "./graph";
import type { Assignment, Scenario, Selection, ValueData } from "./scenario";

export const EMPTY_SELECTION: Selection = { preset: "", with: [], assign: {}, variants: {} };

/** An assigned value as `--assign` takes it: "1.5 USD", or "1.2..1.8 USD" where it is uncertain. */
export function assignmentText(graph: Graph, name: string, assignment: Assignment): string {
  const unit = graph.unit(graph.find(name));
  const { value, uncertainty } = assignment;
  const shown = (number: number) => `${fromBase(unit, number)}`;
  const suffix = unit.text === "1" ? "" : ` ${unit.text}`;
  if (!uncertainty || !(value > 0)) return `${shown(value)}${suffix}`;
  const factor = 1 + uncertainty;
  return `${shown(value / factor)}..${shown(value * factor)}${suffix}`;
}

/** Read what `assignmentText` writes. */
export function readAssignment(graph: Graph, name: string, text: string): Assignment {
  const index = graph.position.get(name);
  if (index === undefined) throw new Error(`unknown variable "${name}"`);
  const found = /^\s*([-+0-9.eE]+?)(?:\.\.([-+0-9.eE]+))?(?:\s+(\S.*))?$/.exec(text);
  const unit = graph.unit(index);
  const stated = found?.[3] ?? "1";
  const chosen = [unit, ...(unit.choices ?? [])].find((each) => each.text === stated);
  if (!found || !chosen || Number.isNaN(Number(found[1]))) {
    throw new Error(`${name}: expected a number in ${unit.text}, got "${text}"`);
  }
  const first = toBase(chosen, Number(found[1]));
  if (found[2] === undefined) return { value: first };
  const second = toBase(chosen, Number(found[2]));
  const ratio = Math.sqrt(second / first);
  return { value: first * ratio, uncertainty: ratio - 1 };
}

/** The parameters of a link to a page; further scenarios carry their number. */
export function selectionParams(
  graph: Graph,
  selection: Selection,
  number = 1,
): Record<string, string> {
  const suffix = number === 1 ? "" : `${number}`;
  const set = Object.entries(selection.assign).map(
    ([name, assignment]) => `${name}=${assignmentText(graph, name, assignment)}`,
  );
  const variants = Object.entries(selection.variants).map(
    ([name, relation]) => `${name}=${relation}`,
  );
  return Object.fromEntries(
    Object.entries({
      [`preset${suffix}`]: selection.preset,
      [`with${suffix}`]: selection.with.join(";"),
      [`set${suffix}`]: set.join(";"),
      [`variant${suffix}`]: variants.join(";"),
    }).filter(([, text]) => text !== ""),
  );
}

/** The scenarios of a link, in order; throws where one names what does not exist. */
export function readSelections(graph: Graph, params: URLSearchParams): Selection[] {
  const found: Selection[] = [];
  for (const suffix of ["", "2", "3", "4"]) {
    const read = (name: string) => params.get(`${name}${suffix}`) ?? "";
    const names = ["preset", "with", "set", "variant"];
    if (!names.some((name) => read(name) !== "")) continue;
    const assign: Record<string, Assignment> = {};
    for (const [name, text] of pairs(read("set"))) assign[name] = readAssignment(graph, name, text);
    found.push({
      preset: read("preset"),
      with: read("with").split(";").filter(Boolean),
      assign,
      variants: Object.fromEntries(pairs(read("variant"))),
    });
  }
  return found;
}

function pairs(text: string): [string, string][] {
  return text
    .split(";")
    .filter(Boolean)
    .map((item) => {
      const at = item.indexOf("=");
      if (at <= 0) throw new Error(`malformed "${item}": expected NAME=VALUE`);
      return [item.slice(0, at), item.slice(at + 1)];
    });
}

/** The command that prints an output of a scenario. */
export function commandOf(graph: Graph, selection: Selection, target: string): string {
  const words = ["assay", "resolve", target];
  if (selection.preset !== "") words.push("--preset", selection.preset);
  for (const path of selection.with) words.push("--with", path);
  for (const [name, assignment] of Object.entries(selection.assign)) {
    words.push("--assign", `${name}=${assignmentText(graph, name, assignment)}`);
  }
  for (const [name, relation] of Object.entries(selection.variants)) {
    words.push("--variant", `${name}=${relation}`);
  }
  return words.map(quoted).join(" ");
}

/** A word as a POSIX shell reads it. */
function quoted(word: string): string {
  return /^[A-Za-z0-9_./=:-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The scenario as a file that `assay resolve --preset FILE.toml` reads. */
export function scenarioFile(graph: Graph, scenario: Scenario, name: string): string {
  const { included, own, selection, values, variants } = scenario;
  const drop = included.flatMap((part) => part.drop);
  const lines = [
    `name = ${toml(name)}`,
    `description = ${toml("A scenario of the lab.")}`,
    `include = [${included.map(({ path }) => toml(path)).join(", ")}]`,
  ];
  if (drop.length > 0) lines.push(`drop = [${drop.map(toml).join(", ")}]`);
  for (const { label, variable } of scenario.targets) {
    lines.push("", "[[targets]]", `label = ${toml(label)}`, `variable = ${toml(variable)}`);
  }
  lines.push("", "[values]");
  for (const each of new Set([...own, ...Object.keys(selection.assign)])) {
    lines.push(`${toml(each)} = ${valueFacts(graph, scenario, each, values[each])}`);
  }
  if (Object.keys(variants).length > 0) lines.push("", "[variants]");
  for (const [each, { relation }] of Object.entries(variants)) {
    lines.push(`${toml(each)} = ${toml(relation)}`);
  }
  return `${lines.join("\n")}\n`;
}

function valueFacts(graph: Graph, scenario: Scenario, name: string, value: ValueData): string {
  const assigned = scenario.selection.assign[name];
  const text = assigned ? assignmentText(graph, name, assigned) : value.text;
  const facts = [
    `value = ${toml(text)}`,
    `source = ${toml(value.source)}`,
    `kind = ${toml(value.kind)}`,
  ];
  if (!assigned && value.uncertainty) facts.push(`uncertainty = ${value.uncertainty}`);
  return `{ ${facts.join(", ")} }`;
}

/** A TOML basic string; JSON's escapes are TOML's. */
function toml(text: string): string {
  return JSON.stringify(text);
}
