"""A plan replayed request by request, as a check on its closed-form latencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.answers import Progress, silent
from assay.intervals import Interval
from assay.lazy_import import np
from assay.model.language.distributions import Z90
from assay.planner.capacity.objective import LIMITS, Objective
from assay.planner.capacity.option import Option, Sizing
from assay.planner.capacity.replay import Replayed
from assay.planner.capacity.traffic import Traffic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

REQUESTS: Final = 20_000
"""Requests that are drawn where a traffic is a rate."""
_WARM: Final = 0.1
"""Share of drawn requests that come before the server is as full as it stays."""
_LEAST_COMPARED: Final = 500
_LEVELS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_FIGURES: Final = ("first_token", "output_token", "end_to_end")


@dataclass(frozen=True)
class Simulation:
    """What requests saw in a replay, at the likely step times and at both ends of their intervals."""

    requests: int
    compared: int
    """Requests whose percentiles these are: those of the busiest stretch of a recording, as the plan's are."""
    steps: int
    preempted: int
    latencies: Mapping[str, Mapping[str, Interval]]
    attained: Interval
    """Share of all requests within every limit."""
    agrees: Mapping[str, bool]
    """Whether the closed form and the replay are within each other's intervals, by percentile."""

    def to_data(self) -> dict[str, Any]:
        """As data of JSON."""
        return {
            "requests": self.requests,
            "compared": self.compared,
            "steps": self.steps,
            "preempted": self.preempted,
            "latencies": {
                figure: {level: value.to_json() for level, value in levels.items()}
                for figure, levels in self.latencies.items()
            },
            "attained": self.attained.to_json(),
            "agrees": dict(self.agrees),
        }


def simulate(
    sizing: Sizing, option: Option, *, seed: int = 0, progress: Progress = silent
) -> Simulation:
    """Replay the traffic of a plan through its replicas: its own requests, or drawn ones of its rate."""
    requests = _requests(sizing, option, seed)
    runs = []
    for deviations in (0.0, -Z90, Z90):
        progress(f"replaying {len(requests.arrivals):,} requests")
        runs.append(_replayed(sizing, requests, deviations, seed))
    latencies = {
        figure: {
            level: _interval(
                [
                    float(np.nanquantile(getattr(run, figure)[requests.counted], share))
                    for run in runs
                ]
            )
            for level, share in _LEVELS.items()
        }
        for figure in _FIGURES
    }
    kept = [_attained(run, requests.after_start, sizing.objective) for run in runs]
    agrees = {
        f"{figure}.{level}": _overlap(latencies[figure][level], option.latencies[figure][level])
        for figure in _FIGURES
        for level in _LEVELS
    }
    return Simulation(
        int(requests.after_start.sum()), int(requests.counted.sum()), runs[0].steps, runs[0].preempted, latencies,
        Interval(kept[0], min(kept), max(kept)), agrees,
    )  # fmt: skip


@dataclass(frozen=True)
class _Requests:
    """Requests with the replica that each comes to."""

    arrivals: Numbers
    fresh: Numbers
    prompts: Numbers
    outputs: Numbers
    replicas: NDArray[np.int64]
    counted: NDArray[np.bool_]
    """Those whose latencies count."""
    after_start: NDArray[np.bool_]
    """Those after the server filled up, where it would be full from the start."""


def _requests(sizing: Sizing, option: Option, seed: int) -> _Requests:
    traffic, generator = sizing.traffic, np.random.default_rng(seed)
    if traffic.arrivals is not None:
        arrivals, picked = traffic.arrivals, np.arange(len(traffic.arrivals))
        counts = _counts(option, arrivals)
        after_start = np.ones(len(arrivals), dtype=bool)
        counted = _busiest(traffic, arrivals)
    else:
        # As many replicas as have enough requests each; under random routing all are alike.
        serving = option.replicas - option.spare
        replicas = min(serving, 8)
        rate = traffic.peak / serving * replicas
        arrivals = np.cumsum(generator.exponential(1 / rate, REQUESTS))
        picked = generator.integers(0, len(traffic.prompts), REQUESTS)
        counts = np.full(REQUESTS, replicas)
        counted = after_start = np.arange(REQUESTS) >= _WARM * REQUESTS
    own = (generator.random(len(arrivals)) * counts).astype(np.int64)
    fresh = _fresh(sizing, option, generator)[picked]
    return _Requests(
        arrivals, fresh, traffic.prompts[picked], traffic.outputs[picked], own, counted,
        after_start,
    )  # fmt: skip


def _busiest(traffic: Traffic, arrivals: Numbers) -> NDArray[np.bool_]:
    """The requests of the busiest stretch; all where it has too few for a 99th percentile."""
    everything = np.ones(len(arrivals), dtype=bool)
    if (stretch := traffic.stretch) is None:
        return everything
    inside: NDArray[np.bool_] = (arrivals >= stretch.start) & (
        arrivals < stretch.start + stretch.seconds
    )
    return inside if int(inside.sum()) >= _LEAST_COMPARED else everything


def _fresh(sizing: Sizing, option: Option, generator: np.random.Generator) -> Numbers:
    """Prompt tokens that each request computes: all, where it comes to a replica without its prefix."""
    traffic = sizing.traffic
    context = float((traffic.prompts + traffic.outputs / 2).mean())
    free = max(sizing.candidate.limits.cache_tokens - option.running * context, 0.0)
    caches = (option.replicas - option.spare) * sizing.candidate.caches
    fresh = traffic.fresh(caches * free)
    if not sizing.has_cache or sizing.routes_by_prefix:
        return np.rint(fresh)
    meets = generator.random(len(fresh)) * caches < 1
    return np.rint(np.where(meets, fresh, traffic.prompts))


def _counts(option: Option, arrivals: Numbers) -> NDArray[np.int64]:
    """Replicas at the time of each arrival, without the spare ones: as the plan's latencies are."""
    starts = np.array([hour.start for hour in option.schedule])
    index = np.maximum(np.searchsorted(starts, arrivals, side="right") - 1, 0)
    counts: NDArray[np.int64] = np.array(
        [hour.replicas - option.spare for hour in option.schedule]
    )[index]
    return counts


def _replayed(sizing: Sizing, requests: _Requests, deviations: float, seed: int) -> Replayed:
    generator = np.random.default_rng(seed)
    count = len(requests.arrivals)
    columns = [np.full(count, np.nan) for _ in _FIGURES]
    steps = preempted = 0
    for replica in np.unique(requests.replicas):
        own = requests.replicas == replica
        run = sizing.candidate.replayed(
            deviations, requests.arrivals[own], requests.fresh[own], requests.prompts[own],
            requests.outputs[own], generator,
        )  # fmt: skip
        for column, figure in zip(columns, _FIGURES, strict=True):
            column[own] = getattr(run, figure)
        steps += run.steps
        preempted += run.preempted
    return Replayed(columns[0], columns[1], columns[2], steps, preempted)


def _attained(run: Replayed, counted: NDArray[np.bool_], objective: Objective) -> float:
    kept = np.ones(int(counted.sum()), dtype=bool)
    for name, limit in objective.limits.items():
        # A request of one token has no time between tokens: NaN is not beyond a limit.
        kept &= ~(getattr(run, LIMITS[name])[counted] > limit)
    return float(kept.mean())


def _interval(values: list[float]) -> Interval:
    return Interval(values[0], min(values), max(values))


def _overlap(first: Interval, second: Interval) -> bool:
    """Whether each value is within the other's interval."""
    return first.lo <= second.value <= first.hi and second.lo <= first.value <= second.hi
