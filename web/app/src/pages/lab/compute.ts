// Resolving a selection: the whole of what a move of a slider costs.

import type { Model, Reading } from "../../tape/model";
import { type ScenarioData, type Selection, withAssigned } from "../../tape/scenario";
import type { Output, Result, Switch, Verdict } from "./types";

/** Resolve every output of a selection. */
export function compute(
  model: Model,
  data: ScenarioData,
  selection: Selection,
  targets: readonly number[],
): Result {
  const started = performance.now();
  const { graph } = model;
  const scenario = withAssigned(data, selection, graph.data.draw.assigned);
  const point = model.point(scenario);
  const reading = model.at(point.inputs);
  const outputs = new Map(targets.map((index) => [index, outputOf(reading, index)]));
  const known = targets.filter((index) => reading.value(index) !== undefined);
  const cone = model.cone(point.inputs, known);
  const isComputed = (index: number) => cone.has(index) && !reading.isGiven(index);
  const relations = reading.relations();
  const used = new Map(relations.map((each) => [each.variable, each.used]));
  const nameOf = (variable: number, number = used.get(variable) ?? 0) =>
    graph.variable(variable).relations[number];
  const switches: Switch[] = relations
    .filter((each) => each.used !== each.asked && isComputed(each.variable))
    .map(({ variable, asked }) => ({
      variable,
      left: nameOf(variable, asked),
      used: nameOf(variable),
    }));
  const invalid = graph.data.validity
    .map((condition, place): Verdict => ({ ...condition, status: reading.validity(place) }))
    .filter(({ name, status }) => {
      const { variable } = graph.relations.get(name)!;
      return status === "false" && isComputed(variable) && nameOf(variable) === name;
    });
  return {
    model,
    scenario,
    point,
    reading,
    outputs,
    switches,
    invalid,
    bounds: reading.brokenBounds().filter((index) => cone.has(index)),
    constraints: graph.data.constraints.map((condition, place) => ({
      ...condition,
      status: reading.constraint(place),
    })),
    conflicts: reading
      .conflicts()
      .map((conflict) => ({ ...conflict, relation: nameOf(conflict.variable) })),
    refused: reading.refused(scenario.accelerator),
    missing: once(() => reading.missing(targets.filter((index) => reading.isMissing(index)))),
    took: performance.now() - started,
  };
}

/** An output; what it lacks, or why it fails, is found when it is asked for. */
function outputOf(reading: Reading, index: number): Output {
  const missing = once(() => (reading.isMissing(index) ? reading.missing([index]) : []));
  const reason = once(() => reading.reason(index));
  return {
    index,
    value: reading.value(index),
    get missing() {
      return missing();
    },
    get reason() {
      return reason();
    },
  };
}

function once<Value>(find: () => Value): () => Value {
  let found: { readonly value: Value } | undefined;
  return () => {
    found ??= { value: find() };
    return found.value;
  };
}
