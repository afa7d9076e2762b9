// Scenarios: a preset, catalog entries that replace its own, and values that replace theirs. The same
// rules as `assay resolve --preset P --with GROUP/NAME --assign NAME=VALUE` (python/assay/scenario),
// which tests compare.

import type { Graph } from "./graph";
import type { Point } from "./resolver";

export interface DistributionData {
  kind: string;
  parameters: number[];
}

export interface ValueData {
  value: number;
  text: string;
  kind: string;
  source: number | string;
  distribution?: DistributionData;
  /** Relative half-width of the 90 % interval that a file states. */
  uncertainty?: number;
}

type Values = Record<string, ValueData>;
type Correlation = [string, string, number];

export interface IncludeData {
  path: string;
  title: string;
  group: string;
  values: Values;
  notes?: string[];
  variants?: Record<string, string>;
  correlations?: Correlation[];
  companions?: Record<string, string>;
  accelerators?: string[];
  line_rate?: { text: string; value: number };
}

export interface PresetData {
  name: string;
  description: string;
  include: { path: string; drop: string[] }[];
  own: Values;
  variants: Record<string, string>;
  targets: { label: string; variable: string }[];
  correlations: Correlation[];
}

export interface ScenarioData {
  format: number;
  presets: PresetData[];
  groups: Record<string, string[]>;
  includes: Record<string, IncludeData>;
  gaps: Record<string, string>;
  companions: { groups: string[]; priced: string[]; judged: string[]; line_rate: string };
  refusals: RefusalData;
  sources: string[];
}

export interface RefusalData {
  bits: number[];
  least_bytes: number;
  most_bytes: number;
  compute: string[];
  stored: string[];
  formats: {
    bits: number;
    rate: string;
    floating: [string, string];
    integer: [string, string, string];
  }[];
}

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

/** A selection with everything that it gives. */
export interface Scenario {
  selection: Selection;
  values: Values;
  variants: Record<string, string>;
  included: IncludeData[];
  notes: string[];
  correlations: Correlation[];
  targets: { label: string; variable: string }[];
}

interface State {
  own: Values;
  included: IncludeData[];
  variants: Record<string, string>;
  correlations: Correlation[];
}

/** Half the width of a 90 % interval, in standard deviations of a normal distribution. */
export const Z90 = 1.6448536269514726;

/** Join preset, catalog entries and assigned values. */
export function joinScenario(data: ScenarioData, selection: Selection): Scenario {
  const preset = data.presets.find((each) => each.name === selection.preset);
  if (preset === undefined && selection.preset !== "") {
    throw new Error(`unknown preset "${selection.preset}"`);
  }
  const start: State = preset === undefined ? EMPTY : presetState(data, preset);
  const added = selection.with.map((path) => findInclude(data, path));
  const { state, notes } =
    added.length > 0 ? withIncludes(data, start, added) : { state: start, notes: [] };
  const merged = mergeIncludes(data, state.included);
  const assigned = Object.entries(selection.assign).map(([name, assignment]) => [
    name,
    assignedValue(assignment),
  ]);
  const isAssigned = (name: string) => name in selection.assign;
  return {
    selection,
    values: { ...merged.values, ...state.own, ...Object.fromEntries(assigned) },
    variants: { ...state.variants, ...selection.variants },
    included: state.included,
    notes: [...notes, ...merged.notes],
    correlations: state.correlations.filter(([a, b]) => !isAssigned(a) && !isAssigned(b)),
    targets: preset?.targets ?? [],
  };
}

const EMPTY: State = { own: {}, included: [], variants: {}, correlations: [] };

export function assignedValue(assignment: Assignment): ValueData {
  const { value, uncertainty } = assignment;
  const stated = { value, text: "", kind: "assumed", source: "given on this page" };
  if (!uncertainty || !(value > 0)) return stated;
  const spread = Math.log1p(uncertainty) / Z90;
  return { ...stated, distribution: { kind: "lognormal", parameters: [value, spread] } };
}

function findInclude(data: ScenarioData, path: string): IncludeData {
  const found = data.includes[path];
  if (found === undefined) throw new Error(data.gaps[path] ?? `unknown catalog entry "${path}"`);
  return found;
}

function presetState(data: ScenarioData, preset: PresetData): State {
  const included = preset.include.map(({ path, drop }) => {
    const part = findInclude(data, path);
    return drop.length > 0 ? { ...part, values: without(part.values, drop) } : part;
  });
  const { own, variants, correlations } = preset;
  return { own, included, variants, correlations };
}

/** A scenario with further includes; each replaces the present ones of its group. */
function withIncludes(
  data: ScenarioData,
  state: State,
  added: IncludeData[],
): { state: State; notes: string[] } {
  const followed = follow(data, state, added);
  const { included } = followed;
  const present = new Set(state.included);
  const kept = new Set(included);
  const fresh = included.filter((part) => !present.has(part));
  const replaced = new Set([
    ...fresh.flatMap((part) => Object.keys(part.values)),
    ...followed.stale,
  ]);
  const own = without(state.own, replaced);
  const replacedParts = state.included.filter((part) => !kept.has(part));
  const gone = new Set(replacedParts.flatMap((part) => Object.keys(part.values)));
  const dropped = replacedParts.flatMap((part) => Object.keys(part.variants ?? {}));
  const merged = mergeIncludes(data, included);
  const isKept = (name: string) => !gone.has(name) && !replaced.has(name);
  const among = state.correlations.filter(([a, b]) => isKept(a) && isKept(b));
  const further = merged.correlations.filter(([a, b]) => !(a in own) && !(b in own));
  const pairs = new Map([...among, ...further].map((pair) => [`${pair[0]},${pair[1]}`, pair]));
  return {
    state: {
      own,
      included,
      variants: { ...without(state.variants, dropped), ...merged.variants },
      correlations: [...pairs.values()],
    },
    notes: followed.notes,
  };
}

/** Add includes; a new accelerator brings the price, node and network that belong to it. */
function follow(
  data: ScenarioData,
  state: State,
  added: IncludeData[],
): { included: IncludeData[]; notes: string[]; stale: string[] } {
  const groups = new Set(added.map((part) => part.group));
  const kept = state.included.filter((part) => !groups.has(part.group));
  const [next, old] = [acceleratorOf(added), acceleratorOf(state.included)];
  if (next === undefined || old === undefined || old.path === next.path) {
    return { included: [...kept, ...added], notes: [], stale: [] };
  }
  const brought: string[] = [];
  const left: IncludeData[] = [];
  const companions: IncludeData[] = [];
  const notes: string[] = [];
  for (const part of kept) {
    const name = next.companions?.[part.group];
    if (name !== undefined && `${part.group}/${name}` !== part.path) {
      const companion = findInclude(data, `${part.group}/${name}`);
      companions.push(companion);
      brought.push(`${companion.path} replaces ${part.path}`);
      continue;
    }
    const stale = fits(part, next) ? [] : data.companions.priced.filter((n) => n in part.values);
    if (name === undefined && stale.length > 0) {
      notes.push(`${stale.join(", ")}: ${part.path} does not fit ${next.path} and is left out`);
      left.push({ ...part, values: without(part.values, stale) });
    } else {
      left.push(part);
    }
  }
  if (brought.length > 0) notes.push(`${brought.join(", ")}: with ${next.path}`);
  const given = new Set([...added, ...companions].flatMap((part) => Object.keys(part.values)));
  const stale = data.companions.priced.filter((name) => name in state.own && !given.has(name));
  for (const name of [...stale].sort()) {
    notes.push(`${name}: the scenario states it for ${old.path}, so it is left out`);
  }
  return { included: [...left, ...added, ...companions], notes, stale };
}

interface Merged {
  values: Values;
  variants: Record<string, string>;
  notes: string[];
  correlations: Correlation[];
}

/** What several includes give together; of two values of one variable the later holds. */
function mergeIncludes(data: ScenarioData, parts: IncludeData[]): Merged {
  const values: Values = {};
  const origin: Record<string, string> = {};
  const notes: string[] = [];
  const disagreements: string[] = [];
  let variants: Record<string, string> = {};
  for (const part of parts) {
    notes.push(...(part.notes ?? []));
    variants = { ...variants, ...part.variants };
    for (const [name, value] of Object.entries(part.values)) {
      const before = values[name];
      if (before !== undefined && before.text !== value.text && before.value !== value.value) {
        disagreements.push(
          `${name}: ${origin[name]} says ${before.text}, ${part.path} says ${value.text}, which holds`,
        );
      }
      values[name] = value;
      origin[name] = part.path;
    }
  }
  const correlations = parts.flatMap((part) =>
    (part.correlations ?? []).filter(
      ([a, b]) => origin[a] === part.path && origin[b] === part.path,
    ),
  );
  const slower = slowerNetwork(data, parts, values);
  if (slower !== undefined) values[data.companions.line_rate] = slower.value;
  return {
    values,
    variants,
    notes: [...(slower?.notes ?? []), ...misfits(data, parts), ...notes, ...disagreements],
    correlations,
  };
}

function misfits(data: ScenarioData, parts: IncludeData[]): string[] {
  const accelerator = acceleratorOf(parts);
  if (accelerator === undefined) return [];
  return parts
    .filter((part) => data.companions.judged.includes(part.group) && !fits(part, accelerator))
    .map((part) => `${part.path} is used although it is not known to fit ${accelerator.path}`);
}

/** The line rate of a network that is slower than the adapters, and a note on it. */
function slowerNetwork(
  data: ScenarioData,
  parts: IncludeData[],
  values: Values,
): { value: ValueData; notes: string[] } | undefined {
  const name = data.companions.line_rate;
  const adapter = values[name];
  for (const part of parts) {
    const stated = part.line_rate;
    if (stated === undefined || adapter === undefined || stated.value >= adapter.value) continue;
    const { distribution } = adapter;
    const value: ValueData = {
      ...adapter,
      value: stated.value,
      text: stated.text,
      source: `line rate of ${part.path}`,
    };
    if (distribution !== undefined) {
      const [, spread] = distribution.parameters;
      value.distribution = { kind: distribution.kind, parameters: [stated.value, spread] };
    }
    const note = `${name}: adapters of ${adapter.text} run at the ${stated.text} of ${part.path}`;
    return { value, notes: [note] };
  }
  return undefined;
}

export function acceleratorOf(parts: IncludeData[]): IncludeData | undefined {
  return parts.filter((part) => part.group === "accelerators").at(-1);
}

function fits(part: IncludeData, accelerator: IncludeData): boolean {
  if (part.accelerators !== undefined) {
    return part.accelerators.includes(accelerator.path.split("/").at(-1)!);
  }
  return `${part.group}/${accelerator.companions?.[part.group]}` === part.path;
}

function without<T>(items: Record<string, T>, names: Iterable<string>): Record<string, T> {
  const gone = new Set(names);
  return Object.fromEntries(Object.entries(items).filter(([name]) => !gone.has(name)));
}

/** The scenario's values and relations by position, as the resolver takes them. */
export function pointOf(graph: Graph, scenario: Scenario): Point {
  const given = new Map(
    Object.entries(scenario.values).map(([name, { value }]) => [graph.find(name), value]),
  );
  const variants = new Map<number, number>();
  for (const [name, relation] of Object.entries(scenario.variants)) {
    variants.set(graph.find(name), findVariant(graph, name, relation));
  }
  return { given, variants };
}

/** A relation of a variable by its full name or by the part after the scope. */
function findVariant(graph: Graph, name: string, relation: string): number {
  const choices = graph.variable(graph.find(name)).relations ?? [];
  const named = (number: number) => graph.data.relations[number].name;
  const found = choices.find(
    (number) => named(number) === relation || named(number).endsWith(`.${relation}`),
  );
  if (found === undefined) throw new Error(`unknown variant of ${name}: "${relation}"`);
  return found;
}
