/** What `assay validate --json` prints. */
export interface Validation {
  readonly groups: readonly Group[];
  readonly scores: readonly Score[];
  readonly leaderboard?: readonly Board[];
}

/** One tool in a group of figures; `own_median` is Assay's on the figures that the tool answers. */
export interface BoardEntry {
  readonly tool: string;
  readonly answered: number;
  readonly median: number | null;
  readonly interval_score: number | null;
  readonly own_median: number | null;
}

export interface Board {
  readonly group: string;
  readonly figures: number;
  readonly entries: readonly BoardEntry[];
}

export interface Errors {
  readonly cases: number;
  readonly mape: number;
  readonly median: number;
  readonly p90: number;
}

export interface Group {
  readonly group: string;
  readonly bar?: number | null;
  readonly figures?: number;
  readonly held_out?: Errors | null;
  readonly in_sample?: Errors | null;
  readonly coverage90?: number | null;
  readonly band95?: readonly [number, number] | null;
  readonly failures?: readonly string[];
}

export interface Score {
  readonly suite: string;
  readonly pool: boolean;
  readonly rows: readonly Row[];
}

export interface Row {
  readonly case: string;
  readonly suite: string;
  readonly quantity: string;
  readonly unit: string;
  readonly observed: number;
  readonly predicted: number | null;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly error: number | null;
  readonly terms: Readonly<Record<string, number>>;
  readonly baselines: Readonly<Record<string, number>>;
  readonly gap: string;
  readonly notes: readonly string[];
  readonly in_sample: boolean;
  readonly held_out: number | null;
  readonly held_out_lo?: number | null;
  readonly held_out_hi?: number | null;
  readonly held_out_error?: number | null;
  readonly group?: string | null;
}

export interface Case {
  readonly case: string;
  readonly kind: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly observed: Readonly<Record<string, unknown>>;
  readonly source: Readonly<Record<string, unknown>>;
  readonly family: string;
  readonly notes: string;
  readonly tier: string;
  readonly accelerator: string;
}

/** Predictions by the shipped constants, or by constants that never saw the figure's source. */
export type Basis = "held_out" | "shipped";

/** A figure as the chart shows it, on one basis. */
export interface Point {
  readonly row: Row;
  readonly key: string;
  readonly accelerator: string;
  readonly predicted: number;
  readonly error: number;
  readonly isInside: boolean | null;
}
