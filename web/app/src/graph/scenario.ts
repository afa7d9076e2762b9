// The scenario of a page, as its address has it: a preset, entries of the catalog and values.

import type { Params } from "../shell/route";

export interface Scenario {
  readonly preset: string;
  /** Entries of the catalog, such as accelerators/h200_sxm. */
  readonly includes: readonly string[];
  /** Values, such as "econ.serving.load=60 %". */
  readonly values: readonly string[];
}

const SEPARATOR = ";";

export function scenarioOf(params: URLSearchParams): Scenario {
  const list = (name: string) =>
    (params.get(name) ?? "")
      .split(SEPARATOR)
      .map((text) => text.trim())
      .filter(Boolean);
  return { preset: params.get("preset") ?? "", includes: list("with"), values: list("set") };
}

/** The scenario as parameters of an address. */
export function paramsOf(scenario: Scenario): Params {
  return {
    preset: scenario.preset,
    with: scenario.includes.join(SEPARATOR),
    set: scenario.values.join(SEPARATOR),
  };
}

/** The scenario as parameters of a request. */
export function queryOf(scenario: Scenario): Record<string, string | readonly string[]> {
  return { preset: scenario.preset, with: scenario.includes, assign: scenario.values };
}

/** The scenario with one more value, which replaces an earlier one of the same variable. */
export function withValue(scenario: Scenario, name: string, text: string): Scenario {
  const others = scenario.values.filter((value) => value.split("=")[0] !== name);
  return { ...scenario, values: text.trim() ? [...others, `${name}=${text.trim()}`] : others };
}

export function isChanged(scenario: Scenario): boolean {
  return scenario.includes.length > 0 || scenario.values.length > 0;
}

/** What a scenario is compared with: what a link started from, else its preset alone. */
export function startOf(scenario: Scenario, start: string | null): Scenario {
  const items = (start ?? "").split(SEPARATOR).filter(Boolean);
  return {
    preset: scenario.preset,
    includes: items.filter((item) => !item.includes("=")),
    values: items.filter((item) => item.includes("=")),
  };
}

export function isSame(one: Scenario, other: Scenario): boolean {
  const text = ({ preset, includes, values }: Scenario) =>
    JSON.stringify([preset, [...includes].sort(), [...values].sort()]);
  return text(one) === text(other);
}

/** The entries and values of a scenario as one parameter, which `startOf` reads. */
export function startText(entries: readonly string[], values: readonly string[]): string {
  return [...entries, ...values].join(SEPARATOR);
}

/** The options of a command that asks the same question. */
export function optionsOf(scenario: Scenario): string {
  const quoted = (text: string) =>
    /^[\w./=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  return [
    ...(scenario.preset ? [`--preset ${scenario.preset}`] : []),
    ...scenario.includes.map((entry) => `--with ${quoted(entry)}`),
    ...scenario.values.map((value) => `--set ${quoted(value)}`),
  ].join(" ");
}
