// Scenarios that cannot exist: formats, experts and contexts that `assay resolve` refuses. The names
// and numbers of the rules come with the data; python/assay/scenario/refusals.py is their home.

import { acceleratorOf, type Scenario, type ScenarioData } from "./scenario";

/** One sentence for each thing that a scenario asks for and that does not exist. */
export function impossible(data: ScenarioData, scenario: Scenario): string[] {
  // Uncertain values are not judged.
  const known = new Map<string, number>();
  for (const [name, value] of Object.entries(scenario.values)) {
    if (value.distribution === undefined) known.set(name, value.value);
  }
  return [...formats(data, scenario, known), ...experts(known), ...context(known)];
}

function* formats(
  data: ScenarioData,
  scenario: Scenario,
  known: ReadonlyMap<string, number>,
): Generator<string> {
  const rules = data.refusals;
  const accelerator = acceleratorOf(scenario.included);
  const title = accelerator?.title || accelerator?.path || "this accelerator";
  for (const name of rules.compute) {
    const bits = known.get(name);
    if (bits === undefined || (name === "serving.expert_bits" && isDense(known))) continue;
    if (!rules.bits.includes(bits)) {
      yield `${name}: expected a number format of 4, 8 or 16 bits, got ${bits}`;
      continue;
    }
    const format = rules.formats.find((each) => each.bits === bits);
    if (format === undefined || known.has(format.rate)) continue;
    const [variant, integer, integerText] = format.integer;
    const chosen = (scenario.variants[format.rate] ?? "").replace(/^gpu\./, "");
    const isInteger = chosen === variant.replace(/^gpu\./, "");
    const [stated, lacking] = isInteger ? [integer, integerText] : format.floating;
    if (known.get(stated) === 0) yield `${name}=${bits}: ${title} has no ${lacking} tensor cores`;
  }
  for (const name of rules.stored) {
    const size = known.get(name);
    if (size && !(rules.least_bytes <= size && size <= rules.most_bytes)) {
      yield `${name}: expected ${rules.least_bytes} to ${rules.most_bytes} byte, got ${size} byte`;
    }
  }
}

function isDense(known: ReadonlyMap<string, number>): boolean {
  return known.get("architecture.experts") === 0;
}

function* experts(known: ReadonlyMap<string, number>): Generator<string> {
  for (const name of ["parallelism.expert", "serving.expert"]) {
    const ranks = known.get(name) ?? 1;
    if (ranks > 1 && isDense(known)) {
      yield `${name}=${ranks}: the model is dense and has no experts to divide`;
    }
  }
}

function* context(known: ReadonlyMap<string, number>): Generator<string> {
  const most = known.get("architecture.context");
  if (most === undefined) return;
  const asked = {
    "architecture.sequence": known.get("architecture.sequence") ?? 0,
    "serving.prompt + serving.output":
      (known.get("serving.prompt") ?? 0) + (known.get("serving.output") ?? 0),
  };
  for (const [name, tokens] of Object.entries(asked)) {
    if (tokens > most) {
      yield `${name} of ${tokens.toFixed(0)} tokens is beyond the model's context of ${most.toFixed(0)}`;
    }
  }
}
