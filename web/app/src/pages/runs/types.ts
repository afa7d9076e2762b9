import type { StepNode } from "./step-nodes";

export interface Measured {
  readonly value: number;
  readonly lo: number;
  readonly hi: number;
}

export interface RunSummary {
  readonly run: string;
  readonly status: string;
  readonly started_at: number | null;
  readonly seconds: number;
  readonly engine: string | null;
  readonly model: string | null;
  readonly device: string | null;
  readonly workload: string | null;
  readonly verdict: string | null;
  readonly metric: string | null;
  readonly baseline: Measured | null;
  readonly final: Measured | null;
  readonly ratio: Measured | null;
  readonly kept: readonly string[];
  readonly experiments: number;
  readonly blocks: number;
  readonly changes_in_force: number;
  readonly journal: { readonly records: number; readonly intact: boolean; readonly status: string };
}

export interface RunList {
  readonly path: string;
  readonly runs: readonly RunSummary[];
}

export interface RunDetails extends RunSummary {
  readonly start: Readonly<Record<string, unknown>> | null;
  readonly settings: Readonly<Record<string, unknown>> | null;
  readonly rollbacks: readonly { readonly why: string }[];
  readonly degradations: readonly string[];
  readonly files: readonly string[];
}

export interface Claim {
  readonly name: string;
  readonly statement: string;
  readonly figure: Measured | null;
  readonly unit: string;
  readonly evidence: readonly {
    readonly file: string;
    readonly rule: string;
    readonly select: Readonly<Record<string, unknown>>;
  }[];
  readonly verdict: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface RunReport {
  readonly claims: readonly Claim[];
  readonly provenance: {
    readonly files: Readonly<Record<string, string>>;
    readonly journal_head: string;
    readonly degradations: readonly string[];
    readonly details: {
      readonly threshold: number | null;
      readonly confidence: number | null;
      readonly skipped: readonly (readonly [string, string])[];
      readonly notes: readonly string[];
      readonly gaps: readonly string[];
      readonly launch: string | null;
    };
  };
}

export interface Sequences {
  readonly threshold: number | null;
  readonly confidence: number | null;
  readonly experiments: readonly {
    readonly claim: string;
    readonly statement: string;
    readonly verdict: string;
    readonly details: Readonly<Record<string, unknown>>;
    readonly looks: readonly Measured[];
  }[];
}

export interface Plan {
  readonly plan: {
    readonly prediction?: {
      readonly floor_ns?: number;
      readonly expected_ns?: number;
      readonly lo_ns?: number;
      readonly hi_ns?: number;
      readonly observed_ns?: number;
    } | null;
    readonly waterfall: readonly Term[];
    /** Absent in runs of earlier versions. */
    readonly nodes?: readonly StepNode[];
    readonly qualification?: { readonly sentence?: string } | null;
  } | null;
}

export interface Term {
  readonly name: string;
  readonly ns: number;
  readonly lo: number | null;
  readonly hi: number | null;
}

export interface Verification {
  readonly verified: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly passed: boolean;
    readonly statement: string;
  }[];
  readonly notes?: readonly string[];
}

export interface TraceList {
  readonly path: string;
  readonly traces: readonly {
    readonly name: string;
    readonly source: string | null;
    readonly model: string | null;
    readonly readable: boolean;
    readonly bytes: number;
    readonly modified: string;
  }[];
}
