"""Predicts the workloads of the what-if experiments from a calibration, without running them."""

from __future__ import annotations

import math
from typing import Any, Final

import whatif_planner
from assay.diagnose.replay import load
from assay.diagnose.replay.load import Arrival, SchedulerConfig
from assay.diagnose.replay.step_cost import Curve, ObservedCost, StepCost, StepShape
from assay.observe.operations import parts
from whatif_cases import Case, Setup
from whatif_workloads import OUTPUT

Z90: Final = 1.6449
NOISE: Final = 0.08
"""Standard deviation of the logarithm of a measured change where nothing changes."""
SHARE: Final = 0.25
"""That of a prediction, as a share of the logarithm of the change it predicts."""
OPERATION: Final = 0.05
"""That of a change whose effect was timed on one operation alone."""
SCHEDULED: Final = 0.08
"""That of a change that the scheduler turns into other steps."""
_LINEAR: Final = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head")


def read_cost(data: dict[str, Any]) -> ObservedCost:
    """The step-cost model of a calibration file."""
    curves = {
        name: Curve(tuple(one["rows"]), tuple(one["ns"])) for name, one in data["curves"].items()
    }
    return ObservedCost(
        curves, tuple(data["attention"]), tuple(data["host"]), data["attention_operation"]
    )


def predict(case: Case, calibration: dict[str, Any]) -> dict[str, Any]:
    """The predicted change of a case, with its 90 % interval."""
    base = _seconds(case.base, case.metric, calibration)
    changed = _seconds(case.changed, case.metric, calibration)
    log = math.log(changed / base)
    extra = OPERATION if case.knob in _BY_OPERATION else 0.0
    if case.base.workload == "closed" or case.knob == "token_budget":
        extra = SCHEDULED
    if "cost" not in calibration:
        extra = max(extra, whatif_planner.GUESSED.get(case.knob, 0.0))
    spread = Z90 * math.hypot(NOISE, SHARE * log, extra)
    return {
        "name": case.name,
        "knob": case.knob,
        "metric": case.metric,
        "base": case.base.as_json(),
        "changed": case.changed.as_json(),
        "base_s": _round(base),
        "changed_s": _round(changed),
        "change": round(math.expm1(log), 4),
        "lo": round(math.expm1(log - spread), 4),
        "hi": round(math.expm1(log + spread), 4),
    }


_BY_OPERATION: Final = (
    "weight_format", "kv_format", "block_tokens", "graph_buckets", "deterministic", "temperature",
    "top_p", "logprobs",
)  # fmt: skip


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _seconds(setup: Setup, metric: str, calibration: dict[str, Any]) -> float:
    cost = _cost(setup, calibration)
    if setup.workload == "decode":
        context = setup.prompt + OUTPUT / 2
        step = cost.step_ns(StepShape.decode(setup.batch, context)) / 1e9
        return step if metric == "seconds_per_step" else step / setup.batch
    if setup.workload == "first_token":
        arrivals = [Arrival(0.0, setup.prompt, 1)]
    else:
        lengths = setup.mixed_prompts or (setup.prompt,)
        arrivals = [
            Arrival(0.0, lengths[index % len(lengths)], setup.output, setup.shared_prefix)
            for index in range(setup.requests)
        ]
    config = SchedulerConfig(
        max_num_seqs=int(setup.knobs.get("max_batch", 16)),
        max_num_batched_tokens=int(setup.knobs.get("token_budget", 512)),
        policy=str(setup.knobs.get("policy", "fcfs")),
        block_size=int(setup.knobs.get("block_tokens", 16)),
        prefix_caching=setup.prefix_caching,
    )
    result = load.simulate(arrivals, config, cost)
    return {
        "ttft": result.mean("ttft_s"),
        "mean_ttft": result.mean("ttft_s"),
        "makespan": result.duration_s,
    }[metric]


def _cost(setup: Setup, calibration: dict[str, Any]) -> StepCost:
    """The step-cost model under the knobs and sampling parameters of a setup."""
    if "cost" not in calibration:
        return whatif_planner.PlannedSteps(setup)
    cost = read_cost(calibration["cost"])
    knobs = setup.knobs
    factors: dict[str, float] = {}
    # Prefill computes more than it reads: the format of the cache does not show.
    if ("kv_format" in knobs or "block_tokens" in knobs) and setup.workload == "decode":
        factors[cost.attention_operation] = _attention_ratio(setup, calibration)
    form = str(knobs.get("weight_format", ""))
    if knobs.get("deterministic"):
        form = "batch_invariant"
    dispatch = 0.0
    if knobs.get("graph_buckets") == 0:
        dispatch = calibration["dispatch_s"] * 1e9 * calibration["operations_per_step"]
    sampling = _sampling_ns(setup, calibration)
    return _Extended(cost.scaled(factors), form, sampling, dispatch, calibration)


class _Extended:
    """A step-cost model under other formats, with time of choosing tokens and of launches."""

    def __init__(
        self, cost: ObservedCost, form: str, sample_ns: float, dispatch_ns: float,
        calibration: dict[str, Any],
    ) -> None:  # fmt: skip
        self.cost, self.sample_ns, self.dispatch_ns = cost, sample_ns, dispatch_ns
        self.form, self.calibration = form, calibration

    def step_ns(self, shape: StepShape) -> float:
        found = self.cost.operations_ns(shape)
        if self.form:
            for name in found:
                if set(parts(name)) & set(_LINEAR):
                    found[name] *= self._linear_ratio(name, found[name], shape)
        return sum(found.values()) + self.sample_ns * shape.samples + self.dispatch_ns

    def _linear_ratio(self, name: str, observed_ns: float, shape: StepShape) -> float:
        """What another format makes of an operation, timed on the largest matrix alone."""
        head = "lm_head" in parts(name)
        rows = shape.samples if head else shape.tokens
        table = self.calibration["linear"]
        stored = self.calibration["head_stored" if head else "stored"]
        if self.form == "batch_invariant" and head:
            return 1.0
        before, after = (self._micro(table[one], rows) for one in (stored, self.form))
        share = 1.0
        if rows > 16 and "activation" in parts(name):
            # The activation of many rows does not depend on the format of the weights.
            layers = self.calibration["layers"]
            share = min(before * 1e9 * layers / observed_ns, 1.0)
        return 1 + share * (after / before - 1)

    def _micro(self, table: dict[str, float], rows: float) -> float:
        curve = Curve(tuple(float(one) for one in table), tuple(table.values()))
        return curve.at(rows) - float(self.calibration["dispatch_s"])


def _attention_ratio(setup: Setup, calibration: dict[str, Any]) -> float:
    table, launch = calibration["attention"], calibration["dispatch_s"]
    form, block = setup.knobs.get("kv_format", "bf16"), setup.knobs.get("block_tokens", 16)
    context = min(max(setup.prompt, 64), 1500)
    changed, base = (
        Curve((64.0, 1500.0), (table[f"{one}/64"] - launch, table[f"{one}/1500"] - launch))
        for one in (f"{form}/{block}", "bf16/16")
    )
    return changed.at(context) / base.at(context)


def _sampling_ns(setup: Setup, calibration: dict[str, Any]) -> float:
    if not setup.sampling:
        return 0.0
    table = calibration["sampling"]
    added = 0.0
    if setup.sampling.get("temperature"):
        mode = "top_p" if "top_p" in setup.sampling else "temperature"
        added += table[mode] - table["greedy"]
    if "logprobs" in setup.sampling:
        added += table["logprobs"]
    return float(added * 1e9)
