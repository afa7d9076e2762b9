// Plans by limits: replicas and cost of every server, and the front that none is cheaper than.

import type { RatesByLimits, ServerRates } from "./types";

/** Replicas of one server that serve the rate within a pair of limits, and what they cost. */
export interface LimitPlan {
  readonly server: ServerRates;
  readonly replicas: number;
  readonly gpus: number;
  readonly usdPerHour: number;
  /** The limit of TPOT in seconds. */
  readonly tokenLimit: number;
  /** Whether no server within this limit, or a tighter one, is cheaper. */
  readonly isBest: boolean;
}

/** The plans of all servers at one limit of TTFT, by limits of TPOT. */
export function plansAt(rates: RatesByLimits, row: number): LimitPlan[] {
  const plans = rates.output_token.flatMap((tokenLimit, column) =>
    rates.servers.flatMap((server) => {
      const rate = server.rates[row]?.[column] ?? 0;
      if (rate <= 0 || server.usd_per_hour === null) return [];
      const replicas = Math.max(Math.ceil(rates.peak_rate / rate), 1);
      return [
        {
          server,
          replicas,
          gpus: replicas * server.gpus,
          usdPerHour: replicas * server.usd_per_hour,
          tokenLimit,
        },
      ];
    }),
  );
  let least = Number.POSITIVE_INFINITY;
  const best = new Set<(typeof plans)[number]>();
  // Tighter limits first: a plan is on the front where it is cheaper than all that are as fast.
  for (const limit of rates.output_token) {
    const own = plans.filter((plan) => plan.tokenLimit === limit);
    const first = own.reduce<(typeof plans)[number] | null>(
      (kept, plan) => (kept === null || plan.usdPerHour < kept.usdPerHour ? plan : kept),
      null,
    );
    if (first && first.usdPerHour < least) {
      least = first.usdPerHour;
      best.add(first);
    }
  }
  return plans.map((plan) => ({ ...plan, isBest: best.has(plan) }));
}

/** The cheapest plan within a limit of TPOT: that of the limit itself, or of a tighter one. */
export function cheapest(plans: readonly LimitPlan[], tokenLimit: number): LimitPlan | null {
  const within = plans.filter((plan) => plan.isBest && plan.tokenLimit <= tokenLimit);
  return within.reduce<LimitPlan | null>(
    (kept, plan) => (kept === null || plan.usdPerHour < kept.usdPerHour ? plan : kept),
    null,
  );
}

/** The place of the limit that is nearest to a number, by ratio. */
export function nearest(limits: readonly number[], value: number): number {
  const distance = (limit: number) => Math.abs(Math.log(limit / value));
  return limits.reduce(
    (kept, limit, index) => (distance(limit) < distance(limits[kept]!) ? index : kept),
    0,
  );
}

/** An amount of money: cents up to a hundred dollars. */
export function dollars(value: number): string {
  if (value >= 100) return `$${Math.round(value).toLocaleString("en-US")}`;
  return value >= 1 ? `$${value.toFixed(2)}` : `$${Number(value.toPrecision(3))}`;
}
