// Two outputs against each other while two inputs move: the points that no other one beats.

import { useCallback, useState } from "react";
import { Card } from "../../components/card";
import { Loading } from "../../components/states";
import { Table } from "../../components/table";
import { Select } from "../../components/toolbar";
import { figureText } from "../../tape/figures";
import type { Graph } from "../../tape/graph";
import { type FrontPoint, pareto } from "../../tape/questions";
import { countsOf } from "./choices";
import { rangeOf } from "./inputs";
import { useSliced } from "./sliced";
import { coneInputs } from "./solve";
import type { Result } from "./types";

const STEPS = 13;
const WIDTH = 640;
const HEIGHT = 320;
const MARGIN = { left: 84, right: 16, top: 12, bottom: 44 };

/** Outputs of which more is better; of others less is. */
const MORE =
  /throughput|tokens_per_second|goodput|mfu|hfu|_use$|utilisation|fit$|peak_flops|attainment/;

export function Pareto(props: {
  readonly graph: Graph;
  readonly result: Result;
  readonly target: number;
  readonly targets: readonly number[];
}) {
  const { graph, result, target } = props;
  const known = props.targets.filter((index) => result.outputs.get(index)?.value !== undefined);
  const inputs = coneInputs(graph, result, target);
  const [chosen, setChosen] = useState<Record<string, string>>({});
  const nameOf = (index: number) => graph.variable(index).name;
  const pick = (key: string, options: readonly string[], preferred: readonly string[]) =>
    chosen[key] && options.includes(chosen[key])
      ? chosen[key]
      : (preferred.find((one) => options.includes(one)) ?? options[0] ?? "");
  const outputs = known.map(nameOf);
  const x = pick(
    "x",
    outputs,
    outputs.filter((one) => one !== nameOf(target) && /throughput$|tokens_per_second/.test(one)),
  );
  const y = pick("y", outputs, [nameOf(target)]);
  const first = pick("first", inputs, ["serving.concurrency", "training.gpus", "training.batch"]);
  const others = inputs.filter((one) => one !== first);
  const second = pick("second", others, [
    "serving.tensor",
    "parallelism.tensor",
    "parallelism.micro_batch",
  ]);
  const isComplete = [x, y, first, second].every((one) => one !== "");
  const { result: points, isStale } = useSliced<FrontPoint[]>(
    useCallback(() => {
      if (!isComplete) return null;
      const pair: [number, number] = [graph.find(first), graph.find(second)];
      const values: [number[], number[]] = [
        valuesOf(graph, pair[0], result.point.given.get(pair[0])!),
        valuesOf(graph, pair[1], result.point.given.get(pair[1])!),
      ];
      const outs: [number, number] = [graph.find(x), graph.find(y)];
      const more: [boolean, boolean] = [MORE.test(x), MORE.test(y)];
      return pareto(result.model, result.point, pair, values, outs, more);
    }, [graph, result, isComplete, x, y, first, second]),
  );
  const set = (key: string) => (name: string) => setChosen({ ...chosen, [key]: name });
  const titled = (names: readonly string[]) =>
    names.map((one) => [one, graph.variable(graph.find(one)).meaning] as const);
  if (!isComplete)
    return <p className="lab-missing">Too few inputs or outputs have a value here.</p>;
  return (
    <Card
      title="What two inputs trade off"
      about="Every point is a pair of values. Filled points are beaten by no other; hollow ones violate a constraint."
    >
      <div className="lab-axes" role="group" aria-label="Axes and inputs">
        <Select label="Across" value={x} options={titled(outputs)} choose={set("x")} />
        <Select label="Up" value={y} options={titled(outputs)} choose={set("y")} />
        <Select label="Moving" value={first} options={titled(inputs)} choose={set("first")} />
        <Select label="and" value={second} options={titled(others)} choose={set("second")} />
      </div>
      {points === undefined ? (
        <Loading what="Resolving the points" />
      ) : points.length === 0 ? (
        <p className="lab-missing">No point has a value of both outputs.</p>
      ) : (
        <div className={isStale ? "stale" : undefined} aria-busy={isStale}>
          <Scatter graph={graph} points={points} x={graph.find(x)} y={graph.find(y)} />
          <Table
            label="Points that no other one beats"
            rows={points.filter(({ isBest }) => isBest)}
            rowKey={({ inputs: at }) => at.join(" ")}
            limit={10}
            columns={[first, second]
              .map((name, place) => ({
                name,
                title: graph.variable(graph.find(name)).meaning,
                isNumber: true,
                key: (row: FrontPoint) => row.inputs[place],
                cell: (row: FrontPoint) =>
                  figureText(row.inputs[place], graph.unit(graph.find(name))),
              }))
              .concat(
                [x, y].map((name, place) => ({
                  name: `output ${name}`,
                  title: graph.variable(graph.find(name)).meaning,
                  isNumber: true,
                  key: (row: FrontPoint) => row.outputs[place],
                  cell: (row: FrontPoint) =>
                    figureText(row.outputs[place], graph.unit(graph.find(name))),
                })),
              )}
          />
        </div>
      )}
    </Card>
  );
}

function valuesOf(graph: Graph, index: number, value: number): number[] {
  if (graph.variable(index).count) return countsOf(graph, index, value);
  const { min, max, isLogarithmic } = rangeOf(graph, index, value, value);
  return Array.from({ length: STEPS }, (_, step) => {
    const share = step / (STEPS - 1);
    return isLogarithmic ? min * (max / min) ** share : min + (max - min) * share;
  });
}

function Scatter(props: {
  readonly graph: Graph;
  readonly points: readonly FrontPoint[];
  readonly x: number;
  readonly y: number;
}) {
  const { graph, points } = props;
  const across = axis(
    points.map(({ outputs }) => outputs[0]),
    MARGIN.left,
    WIDTH - MARGIN.right,
  );
  const up = axis(
    points.map(({ outputs }) => outputs[1]),
    HEIGHT - MARGIN.bottom,
    MARGIN.top,
  );
  const unit = [graph.unit(props.x), graph.unit(props.y)] as const;
  const best = points.filter(({ isBest }) => isBest).sort((a, b) => a.outputs[0] - b.outputs[0]);
  const line = best.map(({ outputs }) => `${across.at(outputs[0])},${up.at(outputs[1])}`).join(" ");
  const label = `${graph.variable(props.y).meaning} against ${graph.variable(props.x).meaning}: ${points.length} points, ${best.length} on the front`;
  return (
    <svg className="lab-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {across.ticks.map((tick) => (
        <g key={tick} transform={`translate(${across.at(tick)} 0)`}>
          <line className="lab-grid" y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />
          <text y={HEIGHT - MARGIN.bottom + 16} textAnchor="middle">
            {figureText(tick, unit[0])}
          </text>
        </g>
      ))}
      {up.ticks.map((tick) => (
        <g key={tick} transform={`translate(0 ${up.at(tick)})`}>
          <line className="lab-grid" x1={MARGIN.left} x2={WIDTH - MARGIN.right} />
          <text x={MARGIN.left - 8} dy="0.35em" textAnchor="end">
            {figureText(tick, unit[1]).replace(" per million tokens", "/M")}
          </text>
        </g>
      ))}
      <polyline className="lab-front" points={line} />
      {points.map(({ inputs, outputs, violated, isBest }) => (
        <circle
          key={inputs.join(" ")}
          className={isBest ? "best" : violated.length > 0 ? "violated" : "beaten"}
          cx={across.at(outputs[0])}
          cy={up.at(outputs[1])}
          r={isBest ? 4.5 : 3}
        >
          <title>
            {`${figureText(outputs[0], unit[0])}, ${figureText(outputs[1], unit[1])}${violated.length > 0 ? `; violates ${violated.join(", ")}` : ""}`}
          </title>
        </circle>
      ))}
      <text x={(MARGIN.left + WIDTH) / 2} y={HEIGHT - 6} textAnchor="middle" className="lab-axis">
        {graph.variable(props.x).meaning}
      </text>
    </svg>
  );
}

/** An axis over values: logarithmic where they are positive and span more than a factor of ten. */
export function axis(
  values: readonly number[],
  start: number,
  end: number,
): { at: (value: number) => number; ticks: number[] } {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const isLogarithmic = low > 0 && high / low > 10;
  const on = (value: number) => (isLogarithmic ? Math.log10(value) : value);
  const [from, to] = [on(low), on(high)];
  const at = (value: number) =>
    to === from ? (start + end) / 2 : start + ((on(value) - from) / (to - from)) * (end - start);
  if (isLogarithmic) {
    const decades = Math.ceil(to) - Math.floor(from);
    const every = Math.max(1, Math.ceil(decades / 6));
    const steps = decades <= 2 ? [1, 2, 5] : [1];
    const ticks: number[] = [];
    for (let power = Math.floor(from); power <= to; power += every) {
      for (const step of steps) ticks.push(step * 10 ** power);
    }
    return { at, ticks: ticks.filter((tick) => low <= tick && tick <= high) };
  }
  const raw = (high - low) / 5 || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * size).find((one) => one >= raw)!;
  const ticks: number[] = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return { at, ticks };
}
