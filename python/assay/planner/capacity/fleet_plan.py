"""Mixed fleets for one or several models by hour, under budgets that they share."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from assay.answers import Answer, data_of
from assay.errors import InfeasibleError
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.fleet import Fleet, Kind, choose_fleet, fleet_of
from assay.planner.capacity.option import Option
from assay.planner.capacity.planning import Floor, Planner, ServingPlan
from assay.planner.capacity.schedules import kept_running
from assay.planner.capacity.traffic import HOUR, Period


@dataclass(frozen=True)
class Servers:
    """Servers of one kind in a period."""

    model: str
    gpu: str
    layout: str
    weight_dtype: str
    replicas: int
    gpus: int


@dataclass(frozen=True)
class FleetHour:
    """The fleet of a period."""

    start: float
    seconds: float
    rates: Mapping[str, float]
    servers: Sequence[Servers]
    gpus: int
    usd_per_hour: float | None
    rated_watts: float | None
    gap: float
    """The most by which a cheaper fleet could be cheaper, as a share."""


@dataclass(frozen=True)
class FleetPlan(Answer):
    """Fleets by period that serve all models within their objective and the budgets."""

    objective: str
    goal: str
    models: Mapping[str, float]
    """Peak rates by model."""
    hours: Sequence[FleetHour]
    gpus: int
    """At the peak."""
    usd_per_hour: float | None
    """Mean over the schedule."""
    alone: float | None
    """The same with one kind of server for each model, mean over the schedule."""
    floors: Mapping[str, Sequence[Floor]]
    """By model."""
    second: FleetHour | None
    """The best fleet of the peak that lacks one of its kinds of servers; None where each is needed."""
    assumed: Sequence[str] = ()
    starts: int = 0
    """Servers that are started after the first period."""

    def to_json(self) -> dict[str, Any]:
        """The fleets by period."""
        names = "objective assumed goal models gpus usd_per_hour alone starts floors second hours"
        return data_of(self, names)


def plan_fleet(planners: Sequence[Planner], budget: Budget, goal: str = "cost") -> FleetPlan:
    """The fleets of planners whose traffics are of one time; each plans for its model."""
    plans = [planner.plan() for planner in planners]
    kinds: list[Kind] = []
    options: list[Option] = []
    for plan in plans:
        for option in plan.options:
            options.append(option)
            kinds.append(_kind(plan.model, option))
    fleets: list[tuple[Mapping[str, float], Fleet]] = []
    by_start = [{own.start: own for own in planner.traffic.periods} for planner in planners]
    # Some models may have no request in a period.
    periods = [own for _, own in sorted(ChainMap(*by_start).items())]
    for period in periods:
        demands = {
            plan.model: own[period.start].busiest if period.start in own else 0.0
            for plan, own in zip(plans, by_start, strict=True)
        }
        try:
            fleet = choose_fleet(kinds, demands, budget, goal)
        except InfeasibleError as error:
            raise InfeasibleError(
                f"{error.message} (the period from {period.start / HOUR:g} h)", error.hint
            ) from None
        fleets.append((demands, fleet))
    start = planners[0].start_seconds
    fleets = _kept(fleets, kinds, budget, [period.seconds for period in periods], start)
    hours = [
        _hour(period.start, period.seconds, demands, fleet, kinds, options)
        for period, (demands, fleet) in zip(periods, fleets, strict=True)
    ]
    lasts = math.fsum(hour.seconds for hour in hours)
    costs = [hour.usd_per_hour for hour in hours]
    started = _starts([fleet.counts for _, fleet in fleets])
    rent = math.fsum(n * (kind.usd_per_hour or 0.0) for n, kind in zip(started, kinds, strict=True))
    mean = (
        None
        if None in costs
        else (math.fsum((hour.usd_per_hour or 0.0) * hour.seconds for hour in hours) + rent * start)
        / lasts
    )
    return FleetPlan(
        plans[0].objective, goal, {plan.model: planner.traffic.peak
                                   for plan, planner in zip(plans, planners, strict=True)},
        hours, max(hour.gpus for hour in hours), mean,
        _alone(plans, periods, start),
        {plan.model: plan.floors for plan in plans},
        _second(kinds, options, budget, goal, hours, fleets), starts=sum(started),
        notes=tuple(dict.fromkeys(note for plan in plans for note in plan.notes)),
    )  # fmt: skip


def _kept(
    fleets: Sequence[tuple[Mapping[str, float], Fleet]], kinds: Sequence[Kind], budget: Budget,
    seconds: Sequence[float], start_seconds: float,
) -> list[tuple[Mapping[str, float], Fleet]]:  # fmt: skip
    """The fleets with servers that stay through lulls shorter than their start, where budgets allow it."""
    columns = zip(*(fleet.counts for _, fleet in fleets), strict=True)
    kept = zip(*(kept_running(own, seconds, start_seconds) for own in columns), strict=True)
    after = []
    for (demands, fleet), counts in zip(fleets, kept, strict=True):
        with suppress(InfeasibleError):
            fleet = fleet_of(kinds, counts, demands, budget, fleet.gap)
        after.append((demands, fleet))
    return after


def _alone(
    plans: Sequence[ServingPlan], periods: Sequence[Period], start_seconds: float
) -> float | None:
    """USD an hour of the best kind of server for each model; None where a price is not known.

    Over the periods of the fleet: a model may have no request, and no server, in most of them.
    """
    seconds = [period.seconds for period in periods]
    paid = []
    for plan in plans:
        rent = plan.best.replica_usd_per_hour
        if rent is None:
            return None
        replicas = {hour.start: hour.replicas for hour in plan.best.schedule}
        needed = [replicas.get(period.start, 0) for period in periods]
        counts = kept_running(needed, seconds, start_seconds)
        (started,) = _starts([(number,) for number in counts])
        used = math.fsum(map(math.prod, zip(counts, seconds, strict=True)))
        paid.append(rent * (used + started * start_seconds))
    return math.fsum(paid) / math.fsum(seconds)


def _starts(counts: Sequence[Sequence[int]]) -> list[int]:
    """Servers of each kind that are started after the first period."""
    return [
        sum(max(after - before, 0) for before, after in pairwise(own))
        for own in zip(*counts, strict=True)
    ]


def _second(
    kinds: Sequence[Kind], options: Sequence[Option], budget: Budget, goal: str,
    hours: Sequence[FleetHour], fleets: Sequence[tuple[Mapping[str, float], Fleet]],
) -> FleetHour | None:  # fmt: skip
    """The best fleet of the peak without one of the kinds of servers that the best has."""
    peak = max(range(len(hours)), key=lambda index: hours[index].gpus)
    demands, best = fleets[peak]
    others: list[Fleet] = []
    for left_out in (index for index, number in enumerate(best.counts) if number):
        barred = [
            replace(kind, rate=0.0) if index == left_out else kind
            for index, kind in enumerate(kinds)
        ]
        with suppress(InfeasibleError):
            others.append(choose_fleet(barred, demands, budget, goal))
    if not others:
        return None
    figures = {"cost": "usd_per_hour", "gpus": "gpus", "power": "watts"}
    second = min(others, key=lambda fleet: getattr(fleet, figures[goal]) or 0.0)
    hour = hours[peak]
    return _hour(hour.start, hour.seconds, demands, second, kinds, options)


def _kind(model: str, option: Option) -> Kind:
    peak, rated = option.peak_usd_per_hour, option.rated_watts
    return Kind(
        model, f"{option.gpu} {option.layout} {option.weight_dtype}", option.gpu,
        option.replica_gpus, option.rate_each, None if peak is None else peak / option.replicas,
        None if rated is None else rated / option.replicas,
    )  # fmt: skip


def _hour(
    start: float, seconds: float, rates: Mapping[str, float], fleet: Fleet,
    kinds: Sequence[Kind], options: Sequence[Option],
) -> FleetHour:  # fmt: skip
    servers = [
        Servers(
            kind.model, option.gpu, option.layout, option.weight_dtype, number, number * kind.gpus
        )
        for number, kind, option in zip(fleet.counts, kinds, options, strict=True)
        if number
    ]
    return FleetHour(
        start, seconds, rates, servers, fleet.gpus, fleet.usd_per_hour, fleet.watts, fleet.gap
    )
