"""More or fewer requests in a batch: a closed loop of clients that share the steps.

A request takes its prefill and a step for each output token. With b requests in a batch, a cycle in
which each of them is served once takes b prefills and as many steps as a request has outputs:

    throughput(b) = b * outputs / (b * prefill + outputs * step(b))

The baseline gives the step (TPOT) and, from the throughput, the prefill; step(b) is the planner's.
"""

from __future__ import annotations

from typing import Final

from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import BATCH_LIMITS, Known
from assay.improve.policy.prediction import Prediction, inverse
from assay.improve.policy.step_ratio import step_ratio
from assay.intervals import Interval

_LATENCIES: Final = ("tpot", "itl")
_THROUGHPUTS: Final = ("output_throughput", "total_token_throughput", "request_throughput")


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """The ratio for another batch limit; a text says why there is none."""
    knob = next(
        (batch_limit for batch_limit in BATCH_LIMITS if batch_limit in candidate.changes), None
    )
    if knob is None or len(candidate.changes) > 1:
        return "not a change of the batch limit"
    if known.workload.arrival != "closed":
        return "an open loop: how full batches are depends on the queue"
    before, after = known.at_once(known.settings[knob]), known.at_once(candidate.changes[knob])
    step = step_ratio(known, before, after)
    metric = known.workload.objective.metric
    by = f"occupancy of a closed loop, {before} to {after} requests in a batch; step by {step.by}"
    if any(name in metric for name in _LATENCIES):
        return Prediction(inverse(step.ratio), by)
    if metric not in _THROUGHPUTS:
        return f"no model of {metric} under another batch limit"
    tpot, throughput = known.figure("mean_tpot_ms"), known.figure("output_throughput")
    if tpot is None or throughput is None:
        return "the baseline has no TPOT or throughput"
    outputs = known.mean_output()
    steps_s = outputs * tpot / 1e3
    # What the cycle of the baseline takes beyond its steps.
    prefill_s = max(before * outputs / throughput - steps_s, 0.0) / before

    def gain(times: float) -> float:
        old = (before * prefill_s + steps_s) / before
        return old / ((after * prefill_s + steps_s * times) / after)

    value, lo, hi = (gain(ratio) for ratio in step.ratio)
    return Prediction(Interval(value, min(lo, hi), max(lo, hi)), by)
