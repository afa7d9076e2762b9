// The model at a point: inputs of the tape written, its outputs read. What the numbers mean is decided
// where the tape is compiled (python/assay/model/tapes/whole.py).

import { Graph, type ModelData } from "./graph";
import { Machine, type Tape } from "./machine";
import type { Scenario } from "./scenario";

export interface TapeData {
  machine: string;
  tape: string;
}

/** The inputs of the tape for a scenario, and which variables it gives. */
export interface Point {
  readonly inputs: Float64Array;
  readonly given: ReadonlyMap<number, number>;
}

export type Status = "true" | "false" | "unknown";

const STATUS = new Map<number, Status>([
  [1, "true"],
  [0, "false"],
]);

/** How many restricted tapes are kept. */
const MOST_TAPES = 4;

export class Model {
  readonly draw: Tape;
  private readonly restricted = new Map<string, Tape>();

  private constructor(
    readonly graph: Graph,
    readonly machine: Machine,
    readonly whole: Tape,
  ) {
    this.draw = machine.load(bytesOf(graph.data.draw.tape));
  }

  static async start(data: ModelData, tape: TapeData): Promise<Model> {
    const machine = await Machine.start(bytesOf(tape.machine));
    return new Model(new Graph(data), machine, machine.load(bytesOf(tape.tape)));
  }

  /** The inputs for a scenario. */
  point(scenario: Scenario): Point {
    const { graph } = this;
    const inputs = new Float64Array(this.whole.inputs);
    const given = new Map<number, number>();
    for (const [name, { value }] of Object.entries(scenario.values)) {
      const index = graph.find(name);
      given.set(index, value);
      inputs[graph.input("value") + index] = value;
      inputs[graph.input("given") + index] = 1;
    }
    for (const [place, index] of graph.data.several.entries()) {
      const chosen = scenario.variants[graph.variable(index).name];
      if (chosen !== undefined) inputs[graph.input("variant") + place] = chosen.number;
    }
    for (const [place, index] of graph.data.exact.entries()) {
      const stated = scenario.values[graph.variable(index).name];
      inputs[graph.input("exact") + place] = stated && stated.draw === undefined ? 1 : 0;
    }
    return { inputs, given };
  }

  /** The point with some inputs at other values. */
  moved(point: Point, changes: readonly (readonly [number, number])[]): Float64Array {
    const inputs = point.inputs.slice();
    for (const [index, value] of changes) {
      inputs[this.graph.input("value") + index] = value;
      inputs[this.graph.input("given") + index] = 1;
    }
    return inputs;
  }

  /** Everything that the tape says at a point. */
  at(inputs: Float64Array): Reading {
    return new Reading(this, inputs, this.machine.evaluate(this.whole, inputs));
  }

  /** Values of some variables at a point; NaN where there is none. */
  values(
    variables: readonly number[],
    inputs: Float64Array,
    points = 1,
    moved: readonly number[] = [],
    columns: readonly Float64Array[] = [],
  ): Float64Array[] {
    const first = this.graph.input("value");
    const places = moved.map((index) => first + index);
    const tape = this.restrict(variables);
    const out = this.machine.evaluate(tape, inputs, points, places, columns);
    return variables.map((_, row) => {
      const values = out.slice(row * points, (row + 1) * points);
      const gaps = (variables.length + row) * points;
      return values.map((value, at) => (out[gaps + at] === 0 ? value : Number.NaN));
    });
  }

  /** A tape of the values and gaps of some variables; the last few are kept. */
  private restrict(variables: readonly number[]): Tape {
    const key = variables.join();
    let tape = this.restricted.get(key);
    if (tape === undefined) {
      const sections = ["value", "gap"].map((section) => this.graph.output(section));
      const outputs = sections.flatMap((start) => variables.map((index) => start + index));
      tape = this.machine.restrict(this.whole, outputs);
      this.restricted.set(key, tape);
      for (const [old, kept] of this.restricted) {
        if (this.restricted.size <= MOST_TAPES) break;
        this.restricted.delete(old);
        this.machine.forget(kept);
      }
    }
    return tape;
  }

  /** Variables that some others are computed from at a point, or lack. */
  cone(inputs: Float64Array, variables: Iterable<number>): Set<number> {
    const { graph } = this;
    const weights = new Float64Array(this.whole.outputs);
    for (const index of variables) weights[graph.output("gap") + index] = 1;
    const gradient = this.machine.gradient(this.whole, inputs, weights);
    const probes = gradient.subarray(graph.input("probe"));
    const found = new Set<number>();
    for (let index = 0; index < graph.data.variables.length; index++) {
      if (probes[index] !== 0) found.add(index);
    }
    return found;
  }
}

/** The outputs of the tape at a point. */
export class Reading {
  constructor(
    private readonly model: Model,
    readonly inputs: Float64Array,
    private readonly out: Float64Array,
  ) {}

  private read(section: string, place: number): number {
    return this.out[this.model.graph.output(section) + place];
  }

  isGiven(index: number): boolean {
    return this.inputs[this.model.graph.input("given") + index] !== 0;
  }

  /** The value; undefined where inputs are missing or it cannot be computed. */
  value(index: number): number | undefined {
    return this.read("gap", index) === 0 ? this.read("value", index) : undefined;
  }

  isMissing(index: number): boolean {
    return this.read("gap", index) > 0;
  }

  /** Inputs without a value that some variables without one need. */
  missing(variables: Iterable<number>): number[] {
    const { graph } = this.model;
    const cone = this.model.cone(this.inputs, variables);
    return [...cone].filter(
      (index) => graph.variable(index).relations.length === 0 && !this.isGiven(index),
    );
  }

  /** Why a variable has no value although no input is missing; empty where that is not so. */
  reason(index: number): string {
    if (!Number.isNaN(this.read("gap", index))) return "";
    const { graph } = this.model;
    const failed = [...this.model.cone(this.inputs, [index])].filter(
      (each) => !this.isGiven(each) && !Number.isFinite(this.read("value", each)),
    );
    const { name, relation, relations } = graph.variable(failed[0] ?? index);
    if (relation < 0 && relations.length > 0) {
      return `${name} has ${relations.length} defining relations: ${relations.join(", ")}`;
    }
    return `${name} has no finite value here`;
  }

  /** The relation that defines each variable with several, by place, and the one that was asked for. */
  relations(): { variable: number; used: number; asked: number }[] {
    const { graph } = this.model;
    return graph.data.several.map((variable, place) => {
      const variant = this.inputs[graph.input("variant") + place];
      const asked = variant > 0 ? variant - 1 : graph.variable(variable).relation;
      return { variable, used: this.read("relation", place), asked };
    });
  }

  constraint(place: number): Status {
    return STATUS.get(this.read("constraint", place)) ?? "unknown";
  }

  validity(place: number): Status {
    return STATUS.get(this.read("validity", place)) ?? "unknown";
  }

  /** Given values that their own equations contradict, with what these compute. */
  conflicts(): { variable: number; given: number; computed: number }[] {
    return this.flagged("conflict").map(([variable, place]) => ({
      variable,
      given: this.read("value", variable),
      computed: this.read("computed", place),
    }));
  }

  /** Computed values outside the bounds of their variables. */
  brokenBounds(): number[] {
    return this.flagged("broken").map(([variable]) => variable);
  }

  private flagged(section: string): [number, number][] {
    const { computed } = this.model.graph.data;
    const pairs = computed.map((variable, place): [number, number] => [variable, place]);
    return pairs.filter(([, place]) => this.read(section, place) !== 0);
  }

  /** What the scenario asks for and does not exist. */
  refused(accelerator: string): string[] {
    const found: string[] = [];
    let place = 0;
    for (const { text, numbers } of this.model.graph.data.refusals) {
      const [isRefused, ...shown] = Array.from({ length: numbers + 1 }, (_, at) =>
        this.read("rule", place + at),
      );
      if (isRefused !== 0) found.push(filled(text, shown, accelerator || "this accelerator"));
      place += numbers + 1;
    }
    return found;
  }
}

/** A text with its numbers, {0:g} or {0:,.0f}, and the accelerator's name. */
function filled(text: string, numbers: readonly number[], accelerator: string): string {
  return text
    .replace("{accelerator}", accelerator)
    .replace(/\{(\d):([^}]*)\}/g, (_, place, format) => {
      const number = numbers[Number(place)];
      return format === "g"
        ? `${Number(number.toPrecision(6))}`
        : number.toLocaleString("en-US", { maximumFractionDigits: 0 });
    });
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
