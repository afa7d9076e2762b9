// Names and units of a run's metrics, and how outcomes are colored.

import type { Tone } from "../../components/tag";

const UNITS: Readonly<Record<string, string>> = {
  output_throughput: "tokens/s",
  total_token_throughput: "tokens/s",
  request_throughput: "requests/s",
  request_goodput: "requests/s",
};

/** "output_throughput" as "output throughput"; vLLM's names of latencies carry their unit. */
export function metricName(metric: string | null): string {
  return (metric ?? "metric").replace(/_ms$/, "").replaceAll("_", " ");
}

export function metricUnit(metric: string | null): string {
  if (!metric) return "";
  return UNITS[metric] ?? (metric.endsWith("_ms") ? "ms" : "");
}

export function verdictTone(verdict: string | null): Tone {
  if (verdict === "improved" || verdict === "kept") return "good";
  if (verdict === "regressed" || verdict === "rolled back" || verdict === "engine lost")
    return "bad";
  if (verdict === "invalid") return "warn";
  return "plain";
}

export function statusTone(status: string): Tone {
  if (status === "under way") return "accent";
  if (status === "damaged") return "bad";
  if (status === "interrupted" || status === "rolled back") return "warn";
  return "plain";
}

/** A time of day as people read it, in UTC, as the command line prints it. */
export function when(at: number | null): string {
  if (at === null) return "-";
  return new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ");
}

export function ratioText(
  ratio: { value: number; lo: number; hi: number } | null,
  digits = 3,
): string {
  if (!ratio) return "-";
  return `${ratio.value.toFixed(digits)}x`;
}
