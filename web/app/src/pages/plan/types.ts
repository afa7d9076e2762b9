/** What `assay plan --by-slo --json` prints. */
export interface RatesByLimits {
  readonly model: string;
  readonly share: number;
  readonly peak_rate: number;
  readonly assumed: readonly string[];
  /** Limits of TTFT and of TPOT in seconds: the rows and columns of `rates`. */
  readonly first_token: readonly number[];
  readonly output_token: readonly number[];
  readonly servers: readonly ServerRates[];
  readonly notes?: readonly string[];
}

export interface ServerRates {
  readonly gpu: string;
  readonly layout: string;
  readonly weight_dtype: string;
  readonly engine: string;
  readonly gpus: number;
  readonly usd_per_hour: number | null;
  readonly rated_watts: number | null;
  /** Requests per second; 0 where no rate keeps the limits. */
  readonly rates: readonly (readonly number[])[];
}

interface Interval {
  readonly value: number;
  readonly lo: number;
  readonly hi: number;
}

type Levels = Readonly<Record<"p50" | "p90" | "p99", Interval>>;

export interface PlannedOption {
  readonly gpu: string;
  readonly layout: string;
  readonly weight_dtype: string;
  readonly engine: string;
  readonly max_running: number;
  readonly replicas: number;
  readonly gpus: number;
  readonly risk: number;
  readonly headroom: number;
  readonly binds: string;
  readonly latencies: Readonly<Record<"first_token" | "output_token" | "end_to_end", Levels>>;
  readonly usd_per_hour: number | null;
  readonly usd_per_month: number | null;
  readonly usd_per_million_input: number | null;
  readonly usd_per_million_output: number | null;
  readonly watts: number | null;
  readonly rated_watts: number | null;
  readonly joules_per_token: number | null;
  readonly kilograms_per_hour: number | null;
  readonly terms: string;
}

/** What `assay plan --json` prints, as far as the page shows it. */
export interface Plan {
  readonly objective: string;
  readonly best: PlannedOption;
  readonly second: PlannedOption | null;
  readonly floors: readonly { readonly gpu: string; readonly gpus: number }[];
  readonly assumed: readonly string[];
  readonly notes?: readonly string[];
}

export interface Choices {
  readonly models: readonly string[];
  readonly gpus: readonly string[];
}
