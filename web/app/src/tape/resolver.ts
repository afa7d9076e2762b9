// Values of variables at one point, with the relations that gave them: the same choices as
// `assay resolve` makes (python/assay/model/resolving/resolver.py), which tests compare.

import { solveBlock } from "./block";
import { evaluate, evaluatePartly } from "./evaluate";
import type { ConditionData, Graph, RelationData } from "./graph";
import { FAILED, KNOWN, MISSING, UNREAD, WALKING } from "./status";

/** Relative difference up to which a given value agrees with its own equation. */
const CONFLICT_TOLERANCE = 1e-9;

/** What a scenario gives: numbers in base units by position, and relations by variable. */
export interface Point {
  given: ReadonlyMap<number, number>;
  variants: ReadonlyMap<number, number>;
}

export interface Switch {
  variable: number;
  left: number;
  used: number;
}

export type Status = "true" | "false" | "unknown";

export interface Verdict {
  name: string;
  text: string;
  meaning: string;
  status: Status;
  reason: string;
  inputs: number[];
}

export interface Conflict {
  variable: number;
  given: number;
  computed: number;
  relation: number;
}

export class Resolver {
  readonly status: Uint8Array;
  readonly values: Float64Array;
  readonly chosen: Int32Array;
  /** The variable whose failure took a value away. */
  readonly origin: Int32Array;
  readonly needs: (readonly number[] | undefined)[];
  readonly switches = new Map<number, Switch>();
  readonly failures = new Map<number, string>();
  private point: Point = { given: new Map(), variants: new Map() };
  private readonly choices: (readonly number[] | undefined)[];

  constructor(readonly graph: Graph) {
    const count = graph.data.variables.length;
    this.status = new Uint8Array(count);
    this.values = new Float64Array(count);
    this.chosen = new Int32Array(count).fill(-1);
    this.origin = new Int32Array(count).fill(-1);
    this.needs = new Array(count);
    this.choices = new Array(count);
  }

  /** Start anew at a point. */
  reset(point: Point): void {
    if (point.variants !== this.point.variants) this.choices.fill(undefined);
    this.point = point;
    this.status.fill(UNREAD);
    this.chosen.fill(-1);
    this.needs.fill(undefined);
    this.switches.clear();
    this.failures.clear();
    for (const index of this.graph.constants) this.set(index, this.graph.variable(index).constant!);
    for (const [index, value] of point.given) this.set(index, value);
  }

  /** The value in base units; undefined where inputs are missing or it cannot be computed. */
  value(index: number): number | undefined {
    return this.read(index) === KNOWN ? this.values[index] : undefined;
  }

  /** Compute a variable, and return its status. */
  read(index: number): number {
    const status = this.status[index];
    if (status === WALKING) throw new Error(`${this.graph.variable(index).name} defines itself`);
    return status === UNREAD ? this.compute(index) : status;
  }

  private compute(index: number): number {
    const variable = this.graph.variable(index);
    if (variable.relations === undefined) return this.lack(index);
    const block = this.graph.blockOf[index];
    if (block >= 0) {
      solveBlock(this, this.graph.data.blocks[block]);
      return this.status[index];
    }
    this.status[index] = WALKING;
    const choices = this.candidates(index);
    if (choices.length === 0) {
      const names = variable.relations.map((number) => this.relation(number).name);
      const reason = `${variable.name} has ${names.length} defining relations: ${names.join(", ")}`;
      return this.fail(index, index, reason);
    }
    const number = choices.length > 1 ? this.firstValid(index, choices) : choices[0];
    if (number < 0) return this.status[index];
    const relation = this.relation(number);
    this.chosen[index] = number;
    this.needs[index] = relation.inputs;
    const collected = this.collect(relation.inputs);
    if (collected === FAILED) return this.inherit(index, relation.inputs);
    if (relation.formula === null) {
      const kind = `${relation.kind} relation ${relation.name}`;
      return this.fail(index, index, `${kind} cannot be evaluated on a page`);
    }
    if (collected === KNOWN) {
      return this.finish(index, this.evaluate(relation.formula, relation.inputs), relation);
    }
    return relation.partly ? this.computePartly(index, relation) : this.lack(index);
  }

  private computePartly(index: number, relation: RelationData): number {
    const { inputs } = relation;
    const formula = this.graph.formulas[relation.formula!];
    const isKnown = new Uint8Array(inputs.length);
    for (let place = 0; place < inputs.length; place++) {
      formula.values[place] = this.values[inputs[place]];
      isKnown[place] = this.status[inputs[place]] === KNOWN ? 1 : 0;
    }
    const { value, needed } = evaluatePartly(formula, isKnown);
    this.needs[index] = needed.map((place) => inputs[place]);
    return value === undefined ? this.lack(index) : this.finish(index, value, relation);
  }

  /** Read all; KNOWN only if every one is, FAILED if one of them is. */
  collect(inputs: readonly number[]): number {
    let found = KNOWN;
    for (const input of inputs) {
      const status = this.read(input);
      if (status === FAILED) return FAILED;
      if (status !== KNOWN) found = MISSING;
    }
    return found;
  }

  /** The value of a formula at inputs that are known. */
  evaluate(number: number, inputs: readonly number[]): number {
    const formula = this.graph.formulas[number];
    const { values } = formula;
    for (let place = 0; place < inputs.length; place++) values[place] = this.values[inputs[place]];
    return evaluate(formula);
  }

  /** The relation to use, then those to switch to; none where it is ambiguous. */
  candidates(index: number): readonly number[] {
    let found = this.choices[index];
    if (found === undefined) {
      found = this.findCandidates(index);
      this.choices[index] = found;
    }
    return found;
  }

  private findCandidates(index: number): readonly number[] {
    const relations = this.graph.variable(index).relations!;
    let first = this.point.variants.get(index);
    if (first === undefined) {
      const identities = relations.filter((number) => this.relation(number).identity);
      const preferred = identities.length > 0 ? identities : relations;
      if (preferred.length > 1) return [];
      first = preferred[0];
    }
    if (this.relation(first).valid === undefined) return [first];
    return [first, ...relations.filter((number) => number !== first)];
  }

  /** The first relation, unless it is known to be invalid and a later one to be valid. */
  private firstValid(index: number, choices: readonly number[]): number {
    const [first, ...others] = choices;
    const verdict = this.isValid(index, first);
    if (verdict === FAILED) return -1;
    if (verdict !== "false") return first;
    for (const number of others) {
      const other = this.isValid(index, number);
      if (other === FAILED) return -1;
      if (other !== "true") continue;
      const { inputs } = this.relation(number);
      const collected = this.collect(inputs);
      if (collected === FAILED) {
        this.inherit(index, inputs);
        return -1;
      }
      if (collected !== KNOWN) continue;
      this.switches.set(index, { variable: index, left: first, used: number });
      return number;
    }
    return first;
  }

  private isValid(index: number, number: number): Status | typeof FAILED {
    const condition = this.relation(number).valid;
    if (condition === undefined) return "true";
    const collected = this.collect(condition.inputs);
    if (collected === FAILED) {
      this.inherit(index, condition.inputs);
      return FAILED;
    }
    return collected === KNOWN ? this.judge(condition) : "unknown";
  }

  /** Whether a condition with known inputs holds; unknown where an operand is not a number. */
  judge(condition: ConditionData): Status {
    if (this.evaluate(condition.certain, condition.inputs) !== 0) return "true";
    return this.evaluate(condition.possible, condition.inputs) !== 0 ? "unknown" : "false";
  }

  relation(number: number): RelationData {
    return this.graph.data.relations[number];
  }

  set(index: number, value: number): number {
    this.values[index] = value;
    this.status[index] = KNOWN;
    return KNOWN;
  }

  lack(index: number): number {
    this.status[index] = MISSING;
    return MISSING;
  }

  fail(index: number, origin: number, reason?: string): number {
    this.status[index] = FAILED;
    this.origin[index] = origin;
    if (reason !== undefined) this.failures.set(index, reason);
    return FAILED;
  }

  private inherit(index: number, inputs: readonly number[]): number {
    const failed = inputs.find((input) => this.status[input] === FAILED)!;
    return this.fail(index, this.origin[failed]);
  }

  private finish(index: number, value: number, relation: RelationData): number {
    if (Number.isFinite(value)) return this.set(index, value);
    return this.fail(index, index, `${relation.name} has no finite value here`);
  }

  /** Why a variable has no value although no input is missing; empty where that is not so. */
  reason(index: number): string {
    return this.status[index] === FAILED ? (this.failures.get(this.origin[index]) ?? "") : "";
  }

  /** The targets and everything that their values were or would be computed from. */
  cone(targets: Iterable<number>): Set<number> {
    const seen = new Set(targets);
    const stack = [...seen];
    while (stack.length > 0) {
      for (const needed of this.needs[stack.pop()!] ?? []) {
        if (!seen.has(needed)) {
          seen.add(needed);
          stack.push(needed);
        }
      }
    }
    return seen;
  }

  /** Inputs without a value that a target needs. */
  missing(target: number): number[] {
    if (this.read(target) !== MISSING) return [];
    // What a known value was computed from is known: only what is missing is followed.
    const seen = new Set([target]);
    const stack = [target];
    const found: number[] = [];
    while (stack.length > 0) {
      const index = stack.pop()!;
      const needs = this.needs[index];
      if (needs === undefined) found.push(index);
      for (const needed of needs ?? []) {
        if (this.status[needed] !== MISSING || seen.has(needed)) continue;
        seen.add(needed);
        stack.push(needed);
      }
    }
    return found;
  }

  /** Verdicts on the constraints; one that lacks inputs is unknown. */
  constraints(): Verdict[] {
    return this.graph.data.constraints.map((constraint) => {
      const { name, text, meaning } = constraint;
      return { name, text, meaning, ...this.verdict(constraint) };
    });
  }

  /** Verdicts on the validity of the approximations in a cone. */
  validity(cone: Iterable<number>): (Verdict & { variable: number })[] {
    const found = [];
    for (const variable of cone) {
      if (this.chosen[variable] < 0) continue;
      const { name, valid } = this.relation(this.chosen[variable]);
      if (valid !== undefined) {
        found.push({ name, text: valid.text, meaning: "", variable, ...this.verdict(valid) });
      }
    }
    return found;
  }

  private verdict(condition: ConditionData): Pick<Verdict, "status" | "reason" | "inputs"> {
    const { inputs } = condition;
    const collected = this.collect(inputs);
    if (collected === KNOWN) return { status: this.judge(condition), reason: "", inputs };
    const failed = inputs.find((input) => this.status[input] === FAILED);
    return { status: "unknown", reason: failed === undefined ? "" : this.reason(failed), inputs };
  }

  /** Computed values of a cone outside the bounds of their variables. */
  brokenBounds(cone: Iterable<number>): number[] {
    const { lower, upper } = this.graph;
    return [...cone].filter(
      (i) =>
        this.status[i] === KNOWN &&
        this.chosen[i] >= 0 &&
        !(lower[i] <= this.values[i] && this.values[i] <= upper[i]),
    );
  }

  /** Given values that their own equations contradict. */
  conflicts(): Conflict[] {
    const found: Conflict[] = [];
    for (const [variable, given] of this.point.given) {
      if (this.graph.variable(variable).relations === undefined) continue;
      const number = this.relationOf(variable);
      if (number === undefined) continue;
      const { inputs, formula } = this.relation(number);
      if (formula === null || this.collect(inputs) !== KNOWN) continue;
      const computed = this.evaluate(formula, inputs);
      if (!Number.isFinite(computed)) continue;
      const size = Math.max(Math.abs(given), Math.abs(computed));
      if (Math.abs(computed - given) > CONFLICT_TOLERANCE * size) {
        found.push({ variable, given, computed, relation: number });
      }
    }
    return found;
  }

  /** The relation that would define a given variable; a switch to it is not recorded. */
  private relationOf(index: number): number | undefined {
    const choices = this.candidates(index);
    if (choices.length < 2 || this.graph.blockOf[index] >= 0) return choices[0];
    const value = this.values[index];
    const number = this.firstValid(index, choices);
    this.switches.delete(index);
    this.set(index, value);
    return number < 0 ? undefined : number;
  }
}
