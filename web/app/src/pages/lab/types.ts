import type { Graph } from "../../tape/graph";
import type { Conflict, Point, Switch, Verdict } from "../../tape/resolver";
import type { Interval } from "../../tape/sampling";
import type { Scenario, ScenarioData, Selection } from "../../tape/scenario";

/** What the server says about scenarios, and what the lab shows of them. */
export interface LabData extends ScenarioData {
  readonly outputs: readonly { readonly title: string; readonly variables: readonly string[] }[];
  readonly layout: readonly string[];
}

export interface Output {
  readonly index: number;
  readonly value: number | undefined;
  readonly missing: readonly number[];
  readonly reason: string;
}

/** A scenario resolved: everything that the page shows of it, but for intervals. */
export interface Result {
  readonly scenario: Scenario;
  readonly point: Point;
  readonly outputs: ReadonlyMap<number, Output>;
  readonly constraints: readonly Verdict[];
  readonly invalid: readonly Verdict[];
  readonly bounds: readonly number[];
  readonly switches: readonly Switch[];
  readonly conflicts: readonly Conflict[];
  readonly refused: readonly string[];
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

export interface Lab {
  readonly graph: Graph;
  readonly data: LabData;
  readonly selections: readonly Selection[];
  readonly active: number;
  readonly target: number;
}

export const LETTERS = ["A", "B", "C", "D"] as const;
export const MOST_SCENARIOS = 4;
