// Answers questions with the page's evaluator: tests compare them with those of Python.
//
// usage: node tape_answers.mjs GRAPH SCENARIOS QUESTIONS, all JSON files; prints a JSON list.

import { readFileSync } from "node:fs";
import { type GraphData, readGraph } from "../app/src/tape/graph";
import { solveFor } from "../app/src/tape/questions";
import { impossible } from "../app/src/tape/refusals";
import { Resolver } from "../app/src/tape/resolver";
import { sampleIntervals } from "../app/src/tape/sampling";
import { joinScenario, pointOf, type ScenarioData, type Selection } from "../app/src/tape/scenario";
import { commandOf, readSelections, scenarioFile, selectionParams } from "../app/src/tape/share";

interface Question {
  selection: Selection;
  /** Values to forget, so that inputs are missing. */
  forget: string[];
  targets: string[];
  /** A target whose command, file and interval are wanted too. */
  share?: string;
  /** An input to solve for, the required value of the first target, in base units. */
  solve?: { input: string; required: number };
}

const [graphData, scenarios, questions] = process.argv
  .slice(2, 5)
  .map((path) => JSON.parse(readFileSync(path, "utf8"))) as [GraphData, ScenarioData, Question[]];
const graph = readGraph(graphData);
const name = (index: number) => graph.variable(index).name;
const relation = (number: number) => graphData.relations[number].name;
const resolver = new Resolver(graph);

const answers = questions.map(({ selection, forget, targets, share, solve }) => {
  const scenario = joinScenario(scenarios, selection);
  for (const variable of forget) delete scenario.values[variable];
  const refused = impossible(scenarios, scenario);
  resolver.reset(pointOf(graph, scenario));
  const found = targets.map((target) => {
    const index = graph.find(target);
    const value = resolver.value(index);
    const cone = resolver.cone([index]);
    return {
      value: value ?? null,
      reason: resolver.reason(index),
      missing: resolver.missing(index).map(name).sort(),
      switches: [...resolver.switches.values()]
        .filter(({ variable }) => cone.has(variable))
        .map(({ variable, left, used }) => [name(variable), relation(left), relation(used)])
        .sort(),
      validity: resolver
        .validity(cone)
        .map((verdict) => [verdict.name, verdict.status])
        .sort(),
    };
  });
  const extra: Record<string, unknown> = {};
  if (share !== undefined) {
    const point = pointOf(graph, scenario);
    const steps = sampleIntervals(new Resolver(graph), scenario, point, [graph.find(share)]);
    let step = steps.next();
    while (!step.done) step = steps.next();
    extra.interval = step.value[0];
    extra.command = commandOf(graph, selection, share);
    extra.file = scenarioFile(graph, scenarios, scenario, "lab_scenario");
    const params = new URLSearchParams(selectionParams(graph, selection, 2));
    extra.link = readSelections(graph, params)[0];
  }
  if (solve !== undefined) {
    const [input, target] = [graph.find(solve.input), graph.find(targets[0])];
    extra.solved = solveFor(
      new Resolver(graph),
      pointOf(graph, scenario),
      input,
      target,
      solve.required,
    );
  }
  const constraints = resolver.constraints().map((verdict) => [verdict.name, verdict.status]);
  const conflicts = resolver.conflicts().map(({ variable }) => name(variable));
  return {
    refused,
    notes: scenario.notes,
    targets: found,
    constraints,
    conflicts: conflicts.sort(),
    ...extra,
  };
});
console.log(JSON.stringify(answers));
