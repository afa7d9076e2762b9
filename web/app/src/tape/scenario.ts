// A scenario as the server joins it from a preset and catalog entries, and the values that a person
// gives on the page, which replace its own.

/** What a person chose: it fits in a link. */
export interface Selection {
  preset: string;
  /** Paths of catalog entries, as after `--with`. */
  with: string[];
  /** Values in base units by variable, as after `--assign`. */
  assign: Record<string, Assignment>;
  variants: Record<string, string>;
}

export interface Assignment {
  value: number;
  /** Relative half-width of a 90 % interval around the value; exact without it. */
  uncertainty?: number;
}

export interface ValueData {
  value: number;
  text: string;
  kind: string;
  source: string;
  /** The kind of its distribution by number, then its parameters; exact without it. */
  draw?: number[];
  /** Relative half-width of the 90 % interval that a file states. */
  uncertainty?: number;
}

export interface IncludeData {
  path: string;
  title: string;
  group: string;
  names: string[];
  drop: string[];
}

/** What the server says of a scenario without the values of the page. */
export interface ScenarioData {
  values: Record<string, ValueData>;
  variants: Record<string, { relation: string; number: number }>;
  included: IncludeData[];
  own: string[];
  notes: string[];
  targets: { label: string; variable: string }[];
  accelerator: string;
  /** Independent scores that a correlated input's own score is the weighted sum of. */
  factors: Record<string, [string, number][]>;
}

/** The same as the difference from another scenario, as an exported site has it. */
export interface ScenarioDifference extends Partial<ScenarioData> {
  base: string;
  values: Record<string, ValueData>;
  gone: string[];
}

export interface Scenario extends ScenarioData {
  selection: Selection;
}

/** The query of the request that joins a selection. */
export function scenarioQuery(selection: Selection): Record<string, string | string[]> {
  return {
    preset: selection.preset,
    with: selection.with,
    variant: Object.entries(selection.variants).map(([name, relation]) => `${name}=${relation}`),
  };
}

export function applyDifference(base: ScenarioData, found: ScenarioDifference): ScenarioData {
  const gone = new Set(found.gone);
  const kept = Object.entries(base.values).filter(([name]) => !gone.has(name));
  return { ...base, ...found, values: { ...Object.fromEntries(kept), ...found.values } };
}

/** A scenario with the values of the page; `assigned` is the kind of their distributions. */
export function withAssigned(data: ScenarioData, selection: Selection, assigned: number): Scenario {
  const values = { ...data.values };
  for (const [name, { value, uncertainty }] of Object.entries(selection.assign)) {
    const stated = { value, text: "", kind: "assumed", source: "given on this page" };
    const isUncertain = uncertainty !== undefined && uncertainty > 0 && value > 0;
    values[name] = isUncertain ? { ...stated, draw: [assigned, value, uncertainty] } : stated;
  }
  return { ...data, values, selection };
}
