// A step as two lanes on one scale of time: as predicted above, as it ran below.

import { useMemo, useState } from "react";
import { Select } from "../../components/toolbar";
import { shown, shownInterval } from "../../design/quantity";
import { FAMILIES, FAMILY_TITLES, familyOf, nodeName, type StepNode } from "./step-nodes";

const WIDTH = 1000;
const LANE = 34;
const BETWEEN = 30;
/** Lines join the two lanes where there are few enough to follow. */
const MOST_JOINED = 60;
const LEAST_WIDTH = 0.6;

interface Box {
  readonly node: StepNode;
  readonly start: number;
  readonly length: number;
}

export function StepLanes(props: {
  readonly nodes: readonly StepNode[];
  readonly operation: string | null;
  readonly term: string | null;
}) {
  const { nodes } = props;
  const [layer, setLayer] = useState("");
  const [pointed, point] = useState<StepNode | null>(null);
  const layers = useMemo(
    () => [...new Set(nodes.map((node) => node.layer).filter((one) => one !== null))],
    [nodes],
  );
  const inside = layer === "" ? nodes : nodes.filter((node) => `${node.layer}` === layer);
  const predicted = boxes(inside, "predicted_start_ns", "expected_ns");
  const observed = boxes(inside, "start_ns", "observed_ns");
  const [first, second] = [origin(predicted), origin(observed)];
  // One scale for both: what is longer is longer on the screen.
  const span = Math.max(reach(predicted) - first, reach(observed) - second, 1);
  const at = (time: number) => (WIDTH * time) / span;
  const families = FAMILIES.filter((one) =>
    inside.some((node) => familyOf(node.operation) === one),
  );
  const lane = (found: readonly Box[], from: number, top: number) =>
    found.map(({ node, start, length }) => (
      <rect
        key={`${top} ${nodeName(node)}`}
        className={boxClass(node, props, pointed)}
        opacity={shareOf(node, props.term, top > 0)}
        x={at(start - from)}
        y={top}
        width={Math.max(at(length), LEAST_WIDTH)}
        height={LANE}
        onPointerEnter={() => point(node)}
      />
    ));
  return (
    <div className="step-lanes">
      <div className="step-lanes-head">
        <Select
          label="Part of the step"
          value={layer}
          options={[
            ["", "the whole step"],
            ...layers.map((one) => [`${one}`, `layer ${one}`] as const),
          ]}
          choose={setLayer}
        />
        <ul className="step-legend">
          {families.map((one) => (
            <li key={one}>
              <span className={`step-swatch ${one}`} aria-hidden="true" /> {FAMILY_TITLES[one]}
            </li>
          ))}
        </ul>
      </div>
      <div className="step-lanes-row">
        <div className="step-lane-names number">
          <span>
            predicted <b>{time(sumOf(predicted))}</b>
          </span>
          <span>
            observed <b>{time(sumOf(observed))}</b>
          </span>
        </div>
        <svg
          viewBox={`0 0 ${WIDTH} ${2 * LANE + BETWEEN}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Nodes of ${layer === "" ? "the step" : `layer ${layer}`} by time: predicted above, observed below; ${time(span)} wide`}
          onPointerLeave={() => point(null)}
        >
          {inside.length <= MOST_JOINED && (
            <Joints predicted={predicted} observed={observed} at={at} from={[first, second]} />
          )}
          {lane(predicted, first, 0)}
          {lane(observed, second, LANE + BETWEEN)}
        </svg>
      </div>
      <p className="step-pointed small" aria-live="polite">
        {pointed ? describe(pointed) : `${time(span)} from left to right; point at a node`}
      </p>
    </div>
  );
}

/** Lines from the middle of each predicted node to that of the observed one. */
function Joints(props: {
  readonly predicted: readonly Box[];
  readonly observed: readonly Box[];
  readonly at: (time: number) => number;
  readonly from: readonly [number, number];
}) {
  const below = new Map(props.observed.map((box) => [box.node, box]));
  const middle = (box: Box, from: number) => props.at(box.start - from + box.length / 2);
  return (
    <g className="step-joints">
      {props.predicted.map((box) => {
        const other = below.get(box.node);
        if (!other) return null;
        const [top, bottom] = [middle(box, props.from[0]), middle(other, props.from[1])];
        return (
          <line
            key={nodeName(box.node)}
            x1={top}
            y1={LANE}
            x2={bottom}
            y2={LANE + BETWEEN}
            vectorEffect="non-scaling-stroke"
          />
        );
      })}
    </g>
  );
}

function boxes(
  nodes: readonly StepNode[],
  start: "predicted_start_ns" | "start_ns",
  length: "expected_ns" | "observed_ns",
): Box[] {
  return nodes.flatMap((node) => {
    const [begin, took] = [node[start], node[length]];
    return begin === null || took === null ? [] : [{ node, start: begin, length: took }];
  });
}

const origin = (found: readonly Box[]) => Math.min(...found.map(({ start }) => start), Infinity);
const reach = (found: readonly Box[]) =>
  Math.max(...found.map(({ start, length }) => start + length), 0);
const sumOf = (found: readonly Box[]) => found.reduce((total, { length }) => total + length, 0);

function boxClass(
  node: StepNode,
  chosen: { readonly operation: string | null },
  pointed: StepNode | null,
): string {
  const names = ["step-box", familyOf(node.operation)];
  if (chosen.operation !== null && node.operation !== chosen.operation) names.push("dimmed");
  if (node === pointed) names.push("pointed");
  return names.join(" ");
}

/** With a term of the waterfall chosen, nodes are as dark as their part of it is large. */
function shareOf(node: StepNode, term: string | null, isObserved: boolean): number {
  if (term === null) return 1;
  if (!isObserved) return 0.25;
  const whole = Object.values(node.terms).reduce((total, one) => total + one, 0);
  return whole > 0 ? 0.12 + (0.88 * (node.terms[term] ?? 0)) / whole : 0.12;
}

function time(ns: number): string {
  return shown({ value: ns / 1e9, unit: "s" });
}

function describe(node: StepNode): string {
  const said = [nodeName(node)];
  if (node.expected_ns === null) said.push("not predicted");
  else {
    const quantity = {
      value: node.expected_ns / 1e9,
      unit: "s",
      lo: node.lo_ns === null ? null : node.lo_ns / 1e9,
      hi: node.hi_ns === null ? null : node.hi_ns / 1e9,
    };
    const interval = shownInterval(quantity);
    said.push(`predicted ${shown(quantity)}${interval ? ` (${interval})` : ""}, ${node.bound}`);
  }
  said.push(node.observed_ns === null ? "did not run" : `observed ${time(node.observed_ns)}`);
  return said.join(" \u00b7 ");
}
