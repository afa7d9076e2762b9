// Answers questions with the page's evaluator: tests compare them with those of Python.
//
// usage: node tape_answers.mjs MODEL TAPE QUESTIONS, all JSON files; prints a JSON list. A question
// carries its scenario as the server joined it, or why it refused.

import { readFileSync } from "node:fs";
import { compute } from "../app/src/pages/lab/compute";
import type { LabData } from "../app/src/pages/lab/types";
import { sampleIntervals } from "../app/src/tape/intervals";
import { Model, type TapeData } from "../app/src/tape/model";
import { solveFor } from "../app/src/tape/questions";
import type { ScenarioData, Selection } from "../app/src/tape/scenario";
import { commandOf, readSelections, scenarioFile, selectionParams } from "../app/src/tape/share";

interface Question {
  selection: Selection;
  scenario: ScenarioData | null;
  error: string;
  /** Values to forget, so that inputs are missing. */
  forget: string[];
  targets: string[];
  /** A target whose command, file and interval are wanted too. */
  share?: string;
  /** An input to solve for, the required value of the first target, in base units. */
  solve?: { input: string; required: number };
}

const [data, tape, questions] = process.argv
  .slice(2, 5)
  .map((path) => JSON.parse(readFileSync(path, "utf8"))) as [LabData, TapeData, Question[]];
const model = await Model.start(data, tape);
const { graph } = model;
const name = (index: number) => graph.variable(index).name;

const answers = questions.map((question) => {
  const { selection, scenario: joined, forget, targets, share, solve } = question;
  if (joined === null) return { refused: [question.error] };
  for (const variable of forget) delete joined.values[variable];
  const found = targets.map((target) => {
    const index = graph.find(target);
    const { outputs, switches } = compute(model, joined, selection, [index]);
    const output = outputs.get(index)!;
    return {
      value: output.value ?? null,
      reason: output.reason,
      missing: output.missing.map(name).sort(),
      switches: switches.map(({ variable, left, used }) => [name(variable), left, used]).sort(),
    };
  });
  const result = compute(
    model,
    joined,
    selection,
    targets.map((target) => graph.find(target)),
  );
  const { scenario, point } = result;
  const extra: Record<string, unknown> = {};
  if (share !== undefined) {
    const steps = sampleIntervals(model, scenario, point, [graph.find(share)]);
    let step = steps.next();
    while (!step.done) step = steps.next();
    extra.interval = step.value[0];
    extra.command = commandOf(graph, selection, share);
    extra.file = scenarioFile(graph, scenario, "lab_scenario");
    const params = new URLSearchParams(selectionParams(graph, selection, 2));
    extra.link = readSelections(graph, params)[0];
  }
  if (solve !== undefined) {
    const [input, target] = [graph.find(solve.input), graph.find(targets[0])];
    extra.solved = solveFor(model, point, input, target, solve.required);
  }
  return {
    refused: result.refused,
    targets: found,
    invalid: result.invalid.map((verdict) => verdict.name).sort(),
    constraints: result.constraints.map((verdict) => [verdict.name, verdict.status]),
    conflicts: result.conflicts.map(({ variable }) => name(variable)).sort(),
    notes: scenario.notes,
    ...extra,
  };
});

console.log(JSON.stringify(answers));
