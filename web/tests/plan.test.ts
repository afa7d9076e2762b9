import assert from "node:assert/strict";
import { test } from "node:test";
import { cheapest, dollars, nearest, plansAt } from "../app/src/pages/plan/front";
import type { RatesByLimits, ServerRates } from "../app/src/pages/plan/types";

function server(gpu: string, usd: number | null, rates: readonly number[]): ServerRates {
  return {
    gpu,
    layout: "TP1",
    weight_dtype: "bf16",
    engine: "vllm",
    gpus: 2,
    usd_per_hour: usd,
    rated_watts: null,
    rates: [rates],
  };
}

const RATES: RatesByLimits = {
  model: "m",
  share: 0.99,
  peak_rate: 20,
  assumed: [],
  first_token: [1],
  output_token: [0.01, 0.02, 0.05],
  servers: [
    server("slow", 1, [0, 2, 10]),
    server("fast", 4, [5, 10, 10]),
    server("free", null, [9, 9, 9]),
  ],
};

test("replicas serve the rate, and the front falls as limits loosen", () => {
  const plans = plansAt(RATES, 0);
  // By hand: 20 / 5 = 4 fast ones at 10 ms for 16; at 20 ms 2 fast for 8, or 10 slow for 10; at 50 ms 2 slow for 2.
  const best = plans.filter((plan) => plan.isBest);
  assert.deepEqual(
    best.map((plan) => [plan.server.gpu, plan.replicas, plan.gpus, plan.usdPerHour]),
    [
      ["fast", 4, 8, 16],
      ["fast", 2, 4, 8],
      ["slow", 2, 4, 2],
    ],
  );
  assert.equal(
    plans.some((plan) => plan.server.gpu === "free"),
    false,
  );
});

test("the cheapest within a limit may be one of a tighter limit", () => {
  const plans = plansAt(RATES, 0);
  assert.equal(cheapest(plans, 0.03)?.usdPerHour, 8);
  assert.equal(cheapest(plans, 0.05)?.server.gpu, "slow");
  assert.equal(cheapest(plans, 0.005), null);
});

test("limits of an address are the nearest of the list", () => {
  assert.equal(nearest([0.1, 1, 10], 2), 1);
  assert.equal(nearest([0.1, 1, 10], 400), 2);
});

test("money reads as money", () => {
  assert.deepEqual([11310.4, 20.367, 0.01924].map(dollars), ["$11,310", "$20.37", "$0.0192"]);
});
