// Resolving a selection: the whole of what a move of a slider costs.

import type { Graph } from "../../tape/graph";
import { impossible } from "../../tape/refusals";
import { Resolver } from "../../tape/resolver";
import { joinScenario, pointOf, type Selection } from "../../tape/scenario";
import type { LabData, Output, Result } from "./types";

/** Resolve every output of a selection; throws where it names what does not exist. */
export function compute(
  graph: Graph,
  data: LabData,
  selection: Selection,
  targets: readonly number[],
): Result {
  const started = performance.now();
  const scenario = joinScenario(data, selection);
  const point = pointOf(graph, scenario);
  const resolver = resolverOf(graph);
  resolver.reset(point);
  const outputs = new Map<number, Output>();
  for (const index of targets) {
    const value = resolver.value(index);
    outputs.set(index, {
      index,
      value,
      missing: value === undefined ? resolver.missing(index) : [],
      reason: resolver.reason(index),
    });
  }
  const known = targets.filter((index) => outputs.get(index)?.value !== undefined);
  const cone = resolver.cone(known);
  const switches = [...resolver.switches.values()].filter(({ variable }) => cone.has(variable));
  return {
    scenario,
    point,
    outputs,
    switches,
    invalid: resolver.validity(cone).filter(({ status }) => status === "false"),
    bounds: resolver.brokenBounds(cone),
    constraints: resolver.constraints(),
    conflicts: resolver.conflicts(),
    refused: impossible(data, scenario),
    took: performance.now() - started,
  };
}

const resolvers = new WeakMap<Graph, Resolver>();

function resolverOf(graph: Graph): Resolver {
  let found = resolvers.get(graph);
  if (!found) {
    found = new Resolver(graph);
    resolvers.set(graph, found);
  }
  return found;
}
