"""One way to serve a traffic: a server, how many of them by period, what they cost, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from assay import plurals
from assay.answers import data_of
from assay.errors import EvaluationError
from assay.intervals import Interval
from assay.model.language.distributions import Z90
from assay.planner.capacity.candidates import Candidate
from assay.planner.capacity.objective import LIMITS, Objective
from assay.planner.capacity.schedules import kept_running
from assay.planner.capacity.served import Sample, Served, sample_of
from assay.planner.capacity.traffic import HOUR, Traffic

QUEUE_LOG_ERRORS: Final = {"p50": 0.19, "p90": 0.16, "p99": 0.22}
"""Standard deviation of the logarithm of percentiles beside the discrete-event model with the same steps: that of
TTFT, the widest, over 250 random servers (`scripts/compare_queue_models.py --servers 250 --seed 7`)."""
_MOST_DEVIATIONS: Final = 4.0
"""Standard deviations of step times up to which the risk is looked for."""
LEAST_RISK: Final = 0.5 * math.erfc(_MOST_DEVIATIONS / math.sqrt(2))
"""A risk that is no more than this is not told apart from none."""
_MOST_REPLICAS: Final = 100_000
_PASSES: Final = 3
"""Of replicas and the prefix cache that they have together."""
_MONTH: Final = 730.0
"""Hours."""
_FIGURES: Final = ("first_token", "output_token", "end_to_end")


@dataclass(frozen=True)
class Site:
    """What a watt of a board takes at the meter, and what a joule there emits."""

    pue: float
    kilograms_per_joule: float
    text: str


@dataclass(frozen=True)
class Hour:
    """Replicas of a period."""

    start: float
    seconds: float
    rate: float
    """Requests per second, on average."""
    busiest: float
    """Requests per second of the busiest stretch, which the replicas are enough for."""
    replicas: int
    watts: float | None


@dataclass(frozen=True)
class Option:
    """A server and its replicas for a traffic; money, power and carbon are None where unknown."""

    gpu: str
    layout: str
    weight_dtype: str
    engine: str
    max_running: int
    """Requests that a replica runs at most (max_num_seqs)."""
    replica_gpus: int
    replicas: int
    """At the peak, with spares."""
    spare: int
    """Replicas beyond those that the objective needs: as many may fail."""
    gpus: int
    schedule: tuple[Hour, ...]
    rate_each: float
    """The highest rate of a replica within the objective, at the stated risk."""
    running: float
    """Requests that decode on a replica at the peak, mean over time."""
    headroom: float
    """How much the peak may grow before the objective is missed at the likely step times, as a share."""
    binds: str
    """The limit that is missed first."""
    latencies: Mapping[str, Mapping[str, Interval]]
    attained: Interval
    """Share of requests within every limit at the peak."""
    risk: float
    """Probability, by the model error of step times, that the objective is missed at the peak."""
    prefix_hits: float
    usd_per_hour: float | None
    """Mean over the schedule."""
    usd_per_month: float | None
    usd_per_request: float | None
    usd_per_million_input: float | None
    usd_per_million_output: float | None
    watts: float | None
    """At the meter (with the PUE), mean over the schedule."""
    peak_watts: float | None
    rated_watts: float | None
    """The most that servers can draw at the meter."""
    joules_per_token: float | None
    """At the meter, over input and output tokens."""
    kilograms_per_hour: float | None
    terms: str
    """At what price GPUs are rented, and from whom."""
    starts: int
    """Replicas that are started after the first period."""
    replica_usd_per_hour: float | None

    @property
    def text(self) -> str:
        """GPUs, replicas and settings in one line."""
        return (
            f"{plurals.count(self.gpus, 'GPU')}: {self.replicas:,} x {self.gpu} {self.layout}, "
            f"{self.weight_dtype}, {self.engine}, at most {self.max_running:,} running"
        )

    @property
    def peak_usd_per_hour(self) -> float | None:
        """Rent of all replicas of the peak."""
        each = self.replica_usd_per_hour
        return None if each is None else each * self.replicas

    def to_data(self) -> dict[str, Any]:
        """As data of JSON."""
        plain = [
            name for name in self.__dataclass_fields__ if name not in ("latencies", "attained")
        ]
        return {
            **data_of(self, " ".join(plain)),
            "latencies": {
                figure: {level: value.to_json() for level, value in levels.items()}
                for figure, levels in self.latencies.items()
            },
            "attained": self.attained.to_json(),
        }


class Sizing:
    """How many replicas of a server a traffic needs."""

    def __init__(
        self, candidate: Candidate, traffic: Traffic, objective: Objective, *, deviations: float,
        routes_by_prefix: bool, start_seconds: float = 0.0, spare: int = 0,
    ) -> None:  # fmt: skip
        self.candidate, self.traffic, self.objective = candidate, traffic, objective
        self.deviations, self.spare = deviations, spare
        self.routes_by_prefix, self.start_seconds = routes_by_prefix, start_seconds
        self.has_cache = traffic.reuse is not None
        self.first = self.sample(1, 0.0)
        self.rate_each = self.highest(self.first)
        self._known: dict[float, tuple[int, Sample]] = {}

    def sample(self, replicas: int, running: float) -> Sample:
        """The requests as replicas see them: their prefix caches hold what running requests leave."""
        traffic, limits = self.traffic, self.candidate.limits
        context = float((traffic.prompts + traffic.outputs / 2).mean())
        free = max(limits.cache_tokens - running * context, 0.0)
        caches = replicas * self.candidate.caches
        fresh = traffic.fresh(caches * free)
        if self.has_cache and not self.routes_by_prefix:
            # The server that a request comes to is the one that has its prefix once in so many.
            fresh = traffic.prompts - (traffic.prompts - fresh) / caches
        return sample_of(fresh, traffic.prompts, traffic.outputs)

    def highest(self, sample: Sample, dispersion: float = 1.0) -> float:
        """The highest rate of one replica within the objective, at the stated risk."""
        return self.candidate.highest(sample, self.deviations, self.objective, dispersion)

    def replicas(self, rate: float) -> tuple[int, Sample]:
        """The fewest replicas that keep the objective at a rate, and the requests that each sees."""
        if rate not in self._known:
            self._known[rate] = self._replicas(rate)
        return self._known[rate]

    def _replicas(self, rate: float) -> tuple[int, Sample]:
        sample, each = self.first, self.rate_each
        count = max(math.ceil(rate / each), 1)
        for _ in range(_PASSES if self.has_cache else 0):
            running = self._running(sample, rate / count)
            sample = self.sample(count, running)
            each = self.highest(sample)
            if each <= 0:
                raise EvaluationError("no rate keeps the objective")
            after = max(math.ceil(rate / each), 1)
            if after == count:
                break
            count = after
        while not self.keeps(sample, rate, count):
            count += max(1, count // 32)
            if count > _MOST_REPLICAS:
                raise EvaluationError(
                    f"{rate:g} requests/s need more than {_MOST_REPLICAS:,} replicas"
                )
        return count, sample

    def _running(self, sample: Sample, rate: float) -> float:
        try:
            return self.served(sample, rate, self.deviations, 1.0).running
        except EvaluationError:
            return float(self.candidate.most)

    def dispersion(self, replicas: int) -> float:
        """Of the arrivals at one of some replicas, which requests come to at random."""
        return 1 + (self.traffic.dispersion - 1) / replicas

    def keeps(self, sample: Sample, rate: float, replicas: int) -> bool:
        """Whether so many replicas keep the objective at a rate."""
        try:
            served = self.served(
                sample, rate / replicas, self.deviations, self.dispersion(replicas)
            )
        except EvaluationError:
            return False
        return served.attained >= self.objective.share

    def served(self, sample: Sample, rate: float, deviations: float, dispersion: float) -> Served:
        """What the requests of one replica see."""
        return self.candidate.served(sample, rate, deviations, self.objective, dispersion)


def option_of(sizing: Sizing, site: Site) -> Option:
    """The replicas of a server for a traffic, by period, with their cost; raises where none do."""
    candidate, traffic = sizing.candidate, sizing.traffic
    if sizing.rate_each <= 0:
        raise _what_binds(sizing)
    replicas, sample = sizing.replicas(traffic.peak)
    rate = traffic.peak / replicas
    dispersion = sizing.dispersion(replicas)
    likely = _at(sizing, sample, rate, 0.0, dispersion)
    if likely is None:
        raise EvaluationError("the objective is not kept")
    ends = [_at(sizing, sample, rate, end, dispersion) for end in (-Z90, Z90)]
    schedule = _schedule(sizing, site)
    whole = replicas + sizing.spare
    hours = math.fsum(hour.seconds for hour in schedule) / HOUR
    starts = sum(max(after.replicas - before.replicas, 0) for before, after in pairwise(schedule))
    used = math.fsum(hour.replicas * hour.seconds for hour in schedule) / HOUR
    # A replica is paid for while it starts.
    used += starts * sizing.start_seconds / HOUR
    tokens = traffic.requests * float((traffic.prompts + traffic.outputs).mean())
    rent = candidate.usd_per_hour
    watts = [hour.watts for hour in schedule]
    joules = (
        None
        if None in watts
        else math.fsum((hour.watts or 0.0) * hour.seconds for hour in schedule)
    )
    mean_watts = None if joules is None else joules / (hours * HOUR)
    costs = _costs(traffic, likely, None if rent is None else rent * used, hours)
    rated = candidate.rated_watts
    return Option(
        candidate.hardware.name, candidate.layout, candidate.batch.weight_dtype,
        candidate.batch.engine, candidate.most, candidate.gpus, whole, sizing.spare, whole * candidate.gpus, schedule,
        sizing.highest(sample, dispersion), likely.running,
        _headroom(sizing, sample, rate, dispersion), likely.binds,
        {figure: _levels(figure, likely, ends) for figure in _FIGURES},
        _attained(likely, ends), _risk(sizing, sample, rate, dispersion),
        1 - float(sample.fresh.sum() / sample.prompts.sum()), *costs, mean_watts,
        None if joules is None else max(hour.watts or 0.0 for hour in schedule),
        None if rated is None else rated * whole * site.pue,
        None if joules is None else joules / tokens,
        None if joules is None else joules / hours * site.kilograms_per_joule, candidate.terms, starts,
        rent,
    )  # fmt: skip


def _at(
    sizing: Sizing, sample: Sample, rate: float, deviations: float, dispersion: float
) -> Served | None:
    """What requests see where all steps take so many deviations longer; None where they queue up."""
    try:
        return sizing.served(sample, rate, deviations, dispersion)
    except EvaluationError:
        return None


def _schedule(sizing: Sizing, site: Site) -> tuple[Hour, ...]:
    hours = []
    periods = sizing.traffic.periods
    needed = [sizing.replicas(period.busiest) for period in periods]
    lengths = [period.seconds for period in periods]
    counts = kept_running([count for count, _ in needed], lengths, sizing.start_seconds)
    counts = [count + sizing.spare for count in counts]
    for period, count, (_, sample) in zip(periods, counts, needed, strict=True):
        served = sizing.served(sample, period.rate / count, 0.0, 1.0)
        watts = sizing.candidate.drawn(sample, served)
        meter = None if watts is None else watts * count * site.pue
        hours.append(Hour(period.start, period.seconds, period.rate, period.busiest, count, meter))
    return tuple(hours)


def _costs(
    traffic: Traffic, served: Served, usd: float | None, hours: float
) -> tuple[float | None, float | None, float | None, float | None, float | None]:
    """USD by the hour, the month, the request and a million input and output tokens.

    The share of the time that prompts take is the share of the cost that input tokens have.
    """
    if usd is None:
        return None, None, None, None, None
    requests = traffic.requests
    share = served.input_share
    inputs = requests * float(traffic.prompts.mean())
    outputs = requests * float(traffic.outputs.mean())
    hourly = usd / hours
    return (
        hourly, _MONTH * hourly, usd / requests, 1e6 * share * usd / inputs,
        1e6 * (1 - share) * usd / outputs,
    )  # fmt: skip


def percentiles(
    candidate: Candidate, sample: Sample, rate: float
) -> dict[str, dict[str, Interval]]:
    """Latencies of one server at a rate, with intervals; raises where it cannot keep up."""

    def at(deviations: float) -> Served:
        return candidate.served(sample, rate, deviations, Objective())

    ends: list[Served | None] = []
    for deviations in (-Z90, Z90):
        try:
            ends.append(at(deviations))
        except EvaluationError:
            ends.append(None)
    likely = at(0.0)
    return {figure: _levels(figure, likely, ends) for figure in _FIGURES}


def _levels(figure: str, likely: Served, ends: list[Served | None]) -> dict[str, Interval]:
    """Percentiles with 90 % intervals by the errors of step times and of the queue model."""
    low, high = ends
    levels = {}
    for level in ("p50", "p90", "p99"):
        value = float(getattr(getattr(likely, figure), level))
        spreads = [
            math.inf if end is None else abs(math.log(getattr(getattr(end, figure), level) / value))
            for end in (low, high)
        ]
        own = Z90 * QUEUE_LOG_ERRORS[level]
        lo, hi = (math.hypot(spread, own) for spread in spreads)
        levels[level] = Interval(value, value * math.exp(-lo), value * math.exp(min(hi, 700.0)))
    return levels


def _attained(likely: Served, ends: list[Served | None]) -> Interval:
    low = 0.0 if ends[1] is None else ends[1].attained
    high = likely.attained if ends[0] is None else ends[0].attained
    return Interval(likely.attained, min(low, likely.attained), max(high, likely.attained))


def _headroom(sizing: Sizing, sample: Sample, rate: float, dispersion: float) -> float:
    highest = sizing.candidate.highest(sample, 0.0, sizing.objective, dispersion)
    return max(highest / rate - 1, 0.0)


def _risk(sizing: Sizing, sample: Sample, rate: float, dispersion: float) -> float:
    """Probability that steps take so long that the objective is missed."""
    from scipy.special import ndtr

    def keeps(deviations: float) -> bool:
        served = _at(sizing, sample, rate, deviations, dispersion)
        return served is not None and served.attained >= sizing.objective.share

    low, high = -_MOST_DEVIATIONS, _MOST_DEVIATIONS
    if not keeps(low):
        return 1.0
    if keeps(high):
        return LEAST_RISK
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return float(ndtr(-low))


class LimitMissedError(EvaluationError):
    """A server whose requests miss a limit even where each is alone."""

    def __init__(self, message: str, times: float) -> None:
        super().__init__(message)
        self.times = times
        """The 99th percentile over the limit."""


def _what_binds(sizing: Sizing) -> EvaluationError:
    """Which limit a lone request misses, and by how much."""
    objective = sizing.objective
    try:
        served = sizing.served(sizing.first, 1e-6, sizing.deviations, 1.0)
    except EvaluationError as error:
        return error
    name = served.binds
    if name not in LIMITS:
        return EvaluationError("no limit is stated")
    worst = getattr(served, LIMITS[name]).p99
    return LimitMissedError(
        f"{name} <= {1e3 * objective.limits[name]:g} ms is missed by {100 * served.misses[name]:.3g} % "
        f"of requests that are alone (p99 {1e3 * worst:,.4g} ms)",
        worst / objective.limits[name],
    )
