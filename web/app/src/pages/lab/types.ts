import type { ConditionData, ModelData } from "../../tape/graph";
import type { Interval } from "../../tape/intervals";
import type { Model, Point, Reading, Status } from "../../tape/model";
import type { Scenario, Selection } from "../../tape/scenario";

/** What the server says about the model, and what the lab shows of it. */
export interface LabData extends ModelData {
  readonly presets: readonly {
    readonly name: string;
    readonly description: string;
    readonly targets: readonly string[];
  }[];
  /** Catalog entries that are offered, by group: path and title. */
  readonly groups: Readonly<Record<string, readonly (readonly [string, string])[]>>;
  readonly headings: readonly { readonly title: string; readonly variables: readonly string[] }[];
  readonly layout: readonly string[];
}

export interface Output {
  readonly index: number;
  readonly value: number | undefined;
  readonly missing: readonly number[];
  readonly reason: string;
}

/** A relation that was replaced because it is not valid, by name. */
export interface Switch {
  readonly variable: number;
  readonly left: string;
  readonly used: string;
}

export interface Verdict extends ConditionData {
  readonly status: Status;
}

export interface Conflict {
  readonly variable: number;
  readonly given: number;
  readonly computed: number;
  readonly relation: string;
}

/** A scenario resolved: everything that the page shows of it, but for intervals. */
export interface Result {
  readonly model: Model;
  readonly scenario: Scenario;
  readonly point: Point;
  readonly reading: Reading;
  readonly outputs: ReadonlyMap<number, Output>;
  readonly constraints: readonly Verdict[];
  readonly invalid: readonly Verdict[];
  readonly bounds: readonly number[];
  readonly switches: readonly Switch[];
  readonly conflicts: readonly Conflict[];
  readonly refused: readonly string[];
  /** Inputs that some output lacks. */
  readonly missing: () => readonly number[];
  /** Milliseconds that it took to resolve. */
  readonly took: number;
}

/** A selection with what it resolves to, or why it does not. */
export interface Resolved {
  readonly selection: Selection;
  readonly result: Result | null;
  readonly error: Error | null;
}

/** Intervals of the outputs by position; stale while those of another point are shown. */
export interface Intervals {
  readonly found: ReadonlyMap<number, Interval> | undefined;
  readonly isStale: boolean;
}

export const LETTERS = ["A", "B", "C", "D"] as const;
export const MOST_SCENARIOS = 4;
