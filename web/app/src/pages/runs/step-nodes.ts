// Nodes of a predicted step beside what ran, as `assay diagnose --json` has them under "nodes".

export interface StepNode {
  /** Null for kernels that are no operation of the model. */
  readonly operation: string | null;
  readonly layer: number | null;
  readonly bound: string | null;
  readonly predicted_start_ns: number | null;
  readonly expected_ns: number | null;
  readonly lo_ns: number | null;
  readonly hi_ns: number | null;
  readonly floor_ns: number | null;
  readonly start_ns: number | null;
  readonly observed_ns: number | null;
  readonly kernels: number;
  readonly residual_ns: number | null;
  readonly terms: Readonly<Record<string, number>>;
}

/** An operation over the layers that have it. */
export interface OperationRow {
  readonly name: string;
  readonly nodes: readonly StepNode[];
  readonly bound: string | null;
  readonly expected: number | null;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly observed: number | null;
  readonly residual: number | null;
}

export const UNNAMED = "other kernels";

/** Operations in the order in which the first node of each comes. */
export function byOperation(nodes: readonly StepNode[]): OperationRow[] {
  const groups = new Map<string, StepNode[]>();
  for (const node of nodes) {
    const name = node.operation ?? UNNAMED;
    const known = groups.get(name);
    if (known) known.push(node);
    else groups.set(name, [node]);
  }
  return [...groups].map(([name, members]) => ({
    name,
    nodes: members,
    bound: boundOf(members),
    expected: sum(members, (node) => node.expected_ns),
    ...interval(members),
    observed: sum(members, (node) => node.observed_ns),
    residual: sum(members, (node) => node.residual_ns),
  }));
}

/** What limits most of the expected time. */
function boundOf(nodes: readonly StepNode[]): string | null {
  const times = new Map<string, number>();
  for (const { bound, expected_ns } of nodes) {
    if (bound !== null) times.set(bound, (times.get(bound) ?? 0) + (expected_ns ?? 0));
  }
  const [first] = [...times].sort((one, other) => other[1] - one[1]);
  return first ? first[0] : null;
}

/** Errors of one operation are alike in all layers, so that its interval is the sum of theirs. */
function interval(nodes: readonly StepNode[]): Pick<OperationRow, "lo" | "hi"> {
  return { lo: sum(nodes, (node) => node.lo_ns), hi: sum(nodes, (node) => node.hi_ns) };
}

function sum(nodes: readonly StepNode[], of: (node: StepNode) => number | null): number | null {
  let total: number | null = null;
  for (const node of nodes) {
    const value = of(node);
    if (value !== null) total = (total ?? 0) + value;
  }
  return total;
}

export function partOf(nodes: readonly StepNode[], term: string): number {
  return nodes.reduce((total, node) => total + (node.terms[term] ?? 0), 0);
}

export const FAMILIES = ["linear", "attention", "communication", "small", "step"] as const;
export type Family = (typeof FAMILIES)[number];

export const FAMILY_TITLES: Readonly<Record<Family, string>> = {
  linear: "linear layers and experts",
  attention: "attention and state-space scan",
  communication: "collectives",
  small: "norms, activations, cache writes",
  step: "inputs, sampling and other",
};

const ATTENTION = new Set(["attention", "ssm_scan"]);
const COMMUNICATION = new Set([
  "all_reduce",
  "all_gather",
  "reduce_scatter",
  "all_to_all",
  "send_recv",
]);
const STEP = new Set(["prepare_inputs", "select_logits", "sampling", "collect_outputs"]);
const LINEAR = new Set([
  "lm_head",
  "router",
  "experts_gate_up",
  "experts_down",
  "shared_gate_up",
  "shared_down",
]);

/** The kind of an operation; of a fused one that of its heaviest part. */
export function familyOf(operation: string | null): Family {
  const parts = operation?.split("+") ?? [];
  if (parts.some((part) => ATTENTION.has(part))) return "attention";
  if (parts.some((part) => part.endsWith("_proj") || LINEAR.has(part))) return "linear";
  if (parts.some((part) => COMMUNICATION.has(part))) return "communication";
  if (parts.length === 0 || parts.every((part) => STEP.has(part))) return "step";
  return "small";
}

/** The name of a node as the planner writes it. */
export function nodeName(node: StepNode): string {
  const name = node.operation ?? UNNAMED;
  return node.layer === null ? name : `layers.${node.layer}.${name}`;
}
