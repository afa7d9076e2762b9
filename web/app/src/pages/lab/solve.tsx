// Solve for an input: at which value does the output become what is wanted?

import { type FormEvent, useState } from "react";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { Select } from "../../components/toolbar";
import { figureText } from "../../tape/figures";
import { type Graph, toBase, type UnitData } from "../../tape/graph";
import { type Solved, solveFor } from "../../tape/questions";
import type { Selection } from "../../tape/scenario";
import type { Result } from "./types";

export function Solve(props: {
  readonly graph: Graph;
  readonly result: Result;
  readonly target: number;
  readonly choose: (selection: Selection) => void;
}) {
  const { graph, result, target } = props;
  const inputs = coneInputs(graph, result, target);
  const [chosen, setChosen] = useState("");
  const name = inputs.includes(chosen)
    ? chosen
    : (inputs.find((one) => PREFERRED.includes(one)) ?? inputs[0] ?? "");
  const scale = scaleOf(graph.unit(target));
  const value = result.outputs.get(target)?.value;
  const [wanted, setWanted] = useState("");
  const [answer, setAnswer] = useState<{
    of: Result;
    name: string;
    required: number;
    solved: Solved;
  } | null>(null);
  const required = scale.toBase(Number(wanted));
  const isReady = wanted.trim() !== "" && Number.isFinite(required) && name !== "";

  function submit(event: FormEvent): void {
    event.preventDefault();
    if (!isReady) return;
    const solved = solveFor(result.model, result.point, graph.find(name), target, required);
    setAnswer({ of: result, name, required, solved });
  }

  return (
    <Card
      title={`When is ${graph.variable(target).meaning} what you want?`}
      about={
        value === undefined
          ? "It has no value here."
          : `It is ${figureText(value, graph.unit(target))} now.`
      }
    >
      <form className="toolbar" onSubmit={submit}>
        <label className="field">
          <span className="field-label">Wanted, in {scale.text}</span>
          <input
            className="input number"
            inputMode="decimal"
            value={wanted}
            onChange={(event) => setWanted(event.target.value)}
          />
        </label>
        <Select
          label="By changing"
          value={name}
          options={inputs.map((one) => [one, graph.variable(graph.find(one)).meaning])}
          choose={setChosen}
        />
        <Button type="submit" kind="primary" disabled={!isReady}>
          Solve
        </Button>
      </form>
      {answer && answer.of === result && (
        <Answer
          graph={graph}
          target={target}
          answer={answer}
          use={(root) => {
            const { selection } = result.scenario;
            props.choose({
              ...selection,
              assign: { ...selection.assign, [answer.name]: { value: root } },
            });
          }}
        />
      )}
    </Card>
  );
}

const PREFERRED = ["econ.gpu.price", "econ.rent.price", "econ.electricity.price"];

function Answer(props: {
  readonly graph: Graph;
  readonly target: number;
  readonly answer: { readonly name: string; readonly required: number; readonly solved: Solved };
  readonly use: (root: number) => void;
}) {
  const { graph, target, answer } = props;
  const index = graph.find(answer.name);
  const { roots, nearest } = answer.solved;
  const wanted = figureText(answer.required, graph.unit(target));
  if (roots.length > 0) {
    return (
      <div role="status" data-testid="solved">
        {roots.map((root) => (
          <p key={root} className="lab-root">
            <span className="figure-value number">{figureText(root, graph.unit(index))}</span>{" "}
            <span className="muted">{graph.variable(index).meaning}</span>{" "}
            <Button onClick={() => props.use(root)}>Use it</Button>
          </p>
        ))}
      </div>
    );
  }
  return (
    <div role="status" data-testid="solved">
      <p>
        No value of {graph.variable(index).meaning} gives {wanted}.
      </p>
      {nearest && (
        <p className="muted">
          The nearest is {figureText(nearest.output, graph.unit(target))}, at{" "}
          {figureText(nearest.input, graph.unit(index))}.{" "}
          <Button onClick={() => props.use(nearest.input)}>Use it</Button>
        </p>
      )}
    </div>
  );
}

/** Given inputs that the target is computed from, in the order of their names. */
export function coneInputs(graph: Graph, result: Result, target: number): string[] {
  return [...result.model.cone(result.point.inputs, [target])]
    .filter((index) => result.point.given.has(index))
    .map((index) => graph.variable(index).name)
    .sort();
}

/** The unit that people state a wanted value in: prices per token are read per million. */
function scaleOf(unit: UnitData): { text: string; toBase: (value: number) => number } {
  if (unit.text === "USD/token") {
    return { text: "$ per million tokens", toBase: (value) => toBase(unit, value / 1e6) };
  }
  return {
    text: unit.text === "1" ? "plain numbers" : unit.text,
    toBase: (value) => toBase(unit, value),
  };
}
