export interface Asked {
  readonly question: string;
  /** What was asked for, such as "fit"; empty where nothing was understood. */
  readonly intent: string;
  readonly candidates: readonly {
    readonly name: string;
    readonly meaning: string;
    readonly unit: string;
    readonly words: readonly string[];
  }[];
  readonly entries: readonly { readonly entry: string; readonly title: string }[];
  readonly presets: readonly string[];
  readonly not_understood: readonly string[];
  /** The commands that were run, or the nearest one where the question is refused. */
  readonly commands: readonly string[];
  /** What the question leaves open and the answer takes by itself, in words. */
  readonly assumed: readonly string[];
  readonly answer: Answer | null;
}

export interface Answer {
  readonly target: string;
  readonly preset: string;
  readonly with: readonly string[];
  /** Values that the command gives, as after --set. */
  readonly assign: readonly string[];
  /** Constraints of the scenario that do not hold, in words. */
  readonly violated: readonly string[];
  readonly command: string;
  readonly value: number | null;
  readonly unit: string | null;
  readonly lo: number | null;
  readonly hi: number | null;
  readonly text: string | null;
  /** "yes" or "no", where that is the answer. */
  readonly verdict: string | null;
  /** The best of the alternatives, where there are some. */
  readonly choice: string | null;
  /** Alternatives with their figures. */
  readonly rows: readonly (readonly [string, string])[];
  readonly missing: readonly string[];
  readonly problem: string | null;
}

export interface Headlines {
  readonly preset: string;
  readonly description: string;
  readonly targets: readonly {
    readonly label: string;
    readonly target: string;
    readonly value: number | null;
    readonly unit: string;
    readonly lo: number | null;
    readonly hi: number | null;
    readonly missing: readonly string[];
  }[];
  readonly spark: {
    readonly input: string;
    readonly meaning: string;
    readonly unit: string;
    readonly value: number;
    readonly at: readonly number[];
    readonly values: Readonly<Record<string, readonly (number | null)[]>>;
  } | null;
}
