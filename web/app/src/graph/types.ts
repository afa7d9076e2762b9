// Answers of the API that the pages on the graph share; each is what a command prints with --json.

export interface Condition {
  readonly name: string;
  readonly status: "true" | "false" | "unknown";
  readonly text: string;
  readonly meaning: string;
  readonly missing: readonly string[];
  readonly reason: string;
  readonly values: readonly {
    readonly name: string;
    readonly value: number;
    readonly unit: string;
  }[];
}

export interface MissingInput {
  readonly name: string;
  readonly unit: string;
  readonly family: string;
  readonly meaning: string;
  readonly boundary: string | null;
  readonly needed_by: readonly string[];
}

export interface Switch {
  readonly variable: string;
  readonly left: string;
  readonly used: string;
  readonly condition: string;
}

export interface Conflict {
  readonly name: string;
  readonly given: number;
  readonly computed: number;
  readonly unit: string;
  readonly relation: string;
}

export type Status = "computed" | "given" | "constant" | "missing" | "incomplete";

/** A variable behind a value, from `assay receipt --json`. */
export interface Line {
  readonly name: string;
  readonly symbol: string;
  readonly meaning: string;
  readonly value: number | null;
  readonly unit: string;
  readonly status: Status;
  readonly relation: string | null;
  readonly text: string | null;
  readonly source: string;
  readonly block: string | null;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly figure: string;
  readonly interval: string;
  readonly scope: string;
  readonly family: string;
  readonly share: number | null;
  readonly inputs: readonly { readonly name: string; readonly share: number | null }[];
}

/** `assay receipt --json`. */
export interface Receipt {
  readonly target: string;
  readonly value: number | null;
  readonly unit: string;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly missing: readonly MissingInput[];
  readonly constraints: readonly Condition[];
  readonly unjudged: readonly Condition[];
  readonly validity: readonly Condition[];
  readonly conflicts: readonly Conflict[];
  readonly switches: readonly Switch[];
  readonly degradations: readonly string[];
  readonly lines: readonly Line[];
  readonly notes: readonly string[];
}

/** What a map needs to know of a variable. */
export interface BriefVariable {
  readonly name: string;
  readonly role: "constant" | "root" | "computed";
  readonly symbol: string;
  readonly meaning: string;
  readonly display: string;
  readonly scope: string;
}

export interface Variable extends BriefVariable {
  readonly unit: string;
  readonly family: string;
  readonly boundary: string | null;
  readonly target: boolean;
  readonly reference: string;
}

export interface Relation {
  readonly name: string;
  readonly kind: string;
  readonly variable: string | null;
  readonly text: string;
  readonly inputs: readonly string[];
  readonly validity: string | null;
  readonly meaning: string;
  readonly scope: string;
  readonly reference: string;
}

export interface Formula extends Relation {
  readonly latex: string;
  readonly unit_check: {
    readonly agrees: boolean;
    readonly unit: string | null;
    readonly reason: string;
  };
}

/** `assay show VARIABLE --json`. */
export interface ShownVariable extends Variable {
  readonly block: string | null;
  readonly defined_by: readonly Formula[];
  readonly used_by: readonly string[];
  readonly constraints: readonly Relation[];
}

/** `assay cone --brief --json`. */
export interface Cone {
  readonly variable: string;
  readonly variables: readonly BriefVariable[];
  /** Relations by what they connect; `variable` is null for a constraint. */
  readonly relations: readonly {
    readonly name: string;
    readonly kind: string;
    readonly variable: string | null;
    readonly inputs: readonly string[];
  }[];
}

/** `assay list --presets --json`. */
export interface Preset {
  readonly name: string;
  readonly description: string;
  readonly values: number;
  readonly targets: readonly { readonly label: string; readonly variable: string }[];
}

/** `assay diff --json`. */
export interface Difference {
  readonly target: string;
  readonly unit: string;
  readonly before: number;
  readonly after: number;
  readonly contributions: readonly {
    readonly label: string;
    readonly amount: number;
    readonly standard_error: number;
    readonly changes: readonly { readonly name: string }[];
  }[];
  readonly unused: readonly string[];
  readonly notes: readonly string[];
}

export interface Crossing {
  readonly source: string;
  readonly target: string;
  readonly edges: number;
  readonly variables: readonly string[];
}

export interface Layer {
  readonly name: string;
  readonly meaning: string;
  readonly variables: number;
  readonly constants: number;
  readonly computed: number;
  readonly roots: Readonly<Record<string, number>>;
  readonly relations: number;
  readonly constraints: number;
  readonly references: Readonly<Record<string, number>>;
  readonly targets: readonly string[];
}

export interface LayerPressure {
  readonly name: string;
  readonly variables: number;
  readonly roots: number;
  readonly by_distance: readonly number[];
  readonly given: number | null;
  readonly missing: number | null;
}

/** `assay atlas --json`. */
export interface Atlas {
  readonly layers: readonly Layer[];
  readonly crossings: readonly Crossing[];
  readonly pressure: {
    readonly target: string;
    readonly layers: readonly LayerPressure[];
    readonly crossings: readonly Crossing[];
  } | null;
}

export interface DebtRow {
  readonly name: string;
  readonly boundary: string;
  readonly dependents: number;
  readonly targets: readonly string[];
  readonly unit: string;
  readonly meaning: string;
  readonly has_reference: boolean;
  readonly members: readonly string[];
  readonly variance_share: number | null;
  readonly first_order_share: number | null;
  readonly share_half_width: number | null;
  readonly note: string;
  /** How the scenario has its value: kinds of sources, "stated" or "missing". */
  readonly given: readonly string[];
}

/** `assay root-debt --json`. */
export interface Debt {
  readonly by: string;
  readonly target: string | null;
  readonly families: boolean;
  readonly rows: readonly DebtRow[];
  readonly degradations: readonly string[];
}

/** `assay root --json`. */
export interface Root {
  readonly name: string;
  readonly symbol: string;
  readonly meaning: string;
  readonly unit: string;
  readonly scope: string;
  readonly family: string;
  readonly boundary: string;
  readonly dependents: number;
  readonly targets: readonly string[];
  readonly used_by: readonly string[];
  readonly presets: readonly {
    readonly preset: string;
    readonly text: string;
    readonly kind: string;
    readonly source: string;
  }[];
  readonly catalog: readonly { readonly group: string; readonly entries: readonly string[] }[];
  readonly steps: readonly string[];
}

/** One variable of a walk, and the relation that leads to it. */
export interface WalkStep {
  readonly variable: string;
  readonly symbol: string;
  readonly meaning: string;
  readonly layer: string;
  readonly value: number | null;
  readonly unit: string;
  readonly relation: string | null;
  readonly states: string | null;
  readonly elasticity: number | null;
  readonly carried: number | null;
}

/** `assay walk --json`. */
export interface Walk {
  readonly from: string;
  readonly to: string;
  readonly elasticity: number | null;
  readonly layers: readonly string[];
  readonly variants: Readonly<Record<string, string>>;
  readonly steps: readonly WalkStep[];
  readonly command: string;
  readonly notes: readonly string[];
}
