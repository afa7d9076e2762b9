"""Figures of a simulated load: over arrivals, and over the error of the step-cost model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.diagnose.replay import load
from assay.diagnose.replay.changes import LOAD_KINDS, WhatIfChange
from assay.diagnose.replay.figures import PERCENTILES, Z90
from assay.diagnose.replay.load import Arrival, LoadResult, SchedulerConfig
from assay.diagnose.replay.step_cost import StepCost, StepShape
from assay.errors import InputError
from assay.intervals import Interval

SEEDS: Final = 5
"""Random arrivals that a load is simulated with."""
STEP_ERROR: Final = 0.05
"""Standard deviation of the logarithm of a step's time that the step-cost model predicts beside an
observed one; unseen dense models on an H200 were 2.9 % off in the median, 7.9 % at worst."""
_OBJECTIVES: Final = ("ttft", "tpot", "e2el")
_METRICS: Final = {"ttft_ms": "ttft_s", "tpot_ms": "tpot_s", "e2el_ms": "e2el_s"}


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that arrive at random, and the scheduler that they meet."""

    rate: float
    prompt_tokens: int
    output_tokens: int
    requests: int = 200
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    slo: Mapping[str, float] = field(default_factory=dict)
    """Objectives in seconds: ttft, tpot, e2el."""

    def changed(self, changes: Sequence[WhatIfChange]) -> Load:
        """The load under changes of the scheduler and of the rate."""
        changed, fields = self, {}
        for change in changes:
            if change.kind == "rate":
                changed = dataclasses.replace(changed, rate=float(change.value))
            elif change.kind == "policy":
                fields["policy"] = str(change.value)
            elif change.kind in LOAD_KINDS:
                fields[change.kind] = int(change.value)  # type: ignore[assignment]
        config = dataclasses.replace(changed.config, **fields)  # type: ignore[arg-type]
        return dataclasses.replace(changed, config=config)

    def arrivals(self, seed: int) -> list[Arrival]:
        """The requests of one run."""
        return load.poisson(
            self.rate, self.requests, self.prompt_tokens, self.output_tokens, seed=seed
        )


def read_load(
    rate: float | None,
    prompt: int = 1024,
    output: int = 128,
    requests: int = 200,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 8192,
    slo: Sequence[str] = (),
) -> Load | None:
    """The load that options describe, none without a rate; objectives are such as ttft:200."""
    objectives = _objectives(slo)
    if rate is None:
        if objectives:
            raise InputError("--slo: expected a load that meets it, got none", "--rate gives one")
        return None
    if not 0 < rate < 1e9:
        raise InputError(f"--rate: expected requests a second above 0, got {rate}")
    given = {"input": prompt, "output": output, "requests": requests,
             "max-num-seqs": max_num_seqs,
             "max-num-batched-tokens": max_num_batched_tokens}  # fmt: skip
    for name, value in given.items():
        if not 1 <= value <= 10_000_000:
            raise InputError(f"--{name}: expected from 1 to 10,000,000, got {value}")
    # Both engines schedule a step while the one before it runs, on GPUs.
    config = SchedulerConfig(max_num_seqs, max_num_batched_tokens, async_scheduling=True)
    return Load(rate, prompt, output, requests, config, objectives)


def _objectives(texts: Sequence[str]) -> dict[str, float]:
    """Seconds by objective."""
    objectives = {}
    for text in texts:
        name, _, value = text.partition(":")
        try:
            milliseconds = float(value)
        except ValueError:
            milliseconds = 0.0
        if name not in _OBJECTIVES or not 0 < milliseconds < 1e12:
            raise InputError(
                f'--slo "{text}": expected {", ".join(f"{known}:MS" for known in _OBJECTIVES)}',
                "milliseconds, such as ttft:200",
            )
        objectives[name] = milliseconds / 1e3
    return objectives


class _Scaled:
    """A step-cost model, off by a factor."""

    def __init__(self, cost: StepCost, factor: float) -> None:
        self.cost, self.factor = cost, factor

    def step_ns(self, shape: StepShape) -> float:
        return self.factor * self.cost.step_ns(shape)


def simulated(what: Load, cost: StepCost) -> dict[str, Interval]:
    """Figures of a load: over arrivals, and over the error of the step-cost model."""
    runs: dict[float, list[dict[str, float]]] = {}
    for sign in (-Z90, 0.0, Z90):
        model = _Scaled(cost, math.exp(sign * STEP_ERROR))
        runs[sign] = [
            _summary(load.simulate(what.arrivals(seed), what.config, model), what.slo)
            for seed in range(SEEDS)
        ]
    intervals = {}
    for name in runs[0.0][0]:
        every = [row[name] for rows in runs.values() for row in rows]
        expected = sum(run[name] for run in runs[0.0]) / SEEDS
        intervals[name] = Interval(expected, min(every), max(every))
    return intervals


def _summary(result: LoadResult, slo: Mapping[str, float]) -> dict[str, float]:
    summary = {
        f"p{percent}_{name}": 1e3 * result.percentile(attribute, percent)
        for name, attribute in _METRICS.items()
        for percent in PERCENTILES
    }
    summary["request_throughput"] = len(result.requests) / result.duration_s
    summary["output_throughput"] = result.output_throughput
    summary["preemptions"] = float(result.preemptions)
    if slo:
        summary["request_goodput"] = result.goodput(slo)
    return summary
