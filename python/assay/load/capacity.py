"""`plan`: how many GPUs a traffic needs within a service level, from recorded requests or a rate."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.answers import Progress, plain_data, silent
from assay.errors import InfeasibleError, InputError
from assay.keywords import takes
from assay.load.traffic import (
    drawn_traffic,
    read_objective,
    read_traffic,
    read_traffic_by_model,
    unitless,
)
from assay.load.workloads.spec import parse_duration, parse_rate, parse_share
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.by_limits import (
    FIRST_TOKEN,
    OUTPUT_TOKEN,
    RatesByLimits,
    rates_by_limits,
)
from assay.planner.capacity.fleet_plan import FleetPlan, plan_fleet
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.option import Option
from assay.planner.capacity.places import Placed, placed, read_places
from assay.planner.capacity.planning import GPUS, Planner, ServingPlan
from assay.planner.capacity.traffic import HOUR, Traffic
from assay.planner.sources import hardware_spec
from assay.scenario.question import each_of

if TYPE_CHECKING:
    from assay.planner.capacity.simulation import Simulation

SLO: Final = "ttft=2s,tpot=200ms,p=99%"
"""Where none is given: the limits of MLPerf Inference's server scenario of Llama 2 70B (loadgen/mlperf.conf,
llama2-70b.Server.ttft_latency and tpot_latency), which 99 % of the queries keep."""
LENGTHS: Final = {"--input-tokens": "1024", "--output-tokens": "128"}
"""Lengths of requests where none are given."""
_MOST_MONTHS: Final = 120
MOST: Final = "max"
"""The rate that is the most within the budgets."""


_CHOICES: Final = tuple(
    # The others are of the traffic and the budgets, which these functions read from texts.
    name
    for name in inspect.signature(Planner).parameters
    if name not in ("model", "traffic", "objective", "gpus", "goal", "budget", "progress")
)
_SAID: Final = {
    "gpu": "gpus", "dtype": "dtypes", "engine": "engines", "goal": "minimize",
    "max_cost": "max_usd_per_hour", "max_power": "max_watts", "disaggregated": "apart",
    "start_time": "start_seconds", "place": "places", "place_by": "places_by",
}  # fmt: skip
"""Words of the command line, by the keywords of these functions."""


@dataclass(frozen=True)
class GrowthMonth:
    """The plan's server for the traffic of a later month."""

    month: int
    peak_rate: float
    replicas: int
    gpus: int
    usd_per_hour: float | None
    """Mean over the schedule."""
    excess: str
    """The budget that it does not keep; empty where it keeps all."""


@dataclass(frozen=True)
class CapacityPlan(ServingPlan):
    """A plan, with what a replay of it says."""

    simulation: Simulation | None = None
    places: Sequence[Placed] = ()
    """Where the replicas of the peak stand, where places were named."""
    growth: Sequence[GrowthMonth] = ()
    """The same server month by month, where the traffic grows."""

    def to_json(self) -> dict[str, Any]:
        """The plan, the replay, the places and the months."""
        replayed = None if self.simulation is None else self.simulation.to_data()
        return {
            **super().to_json(),
            "simulation": replayed,
            "places": plain_data(self.places),
            "growth": plain_data(self.growth),
        }


@takes(_CHOICES, _SAID)
def plan_capacity(
    trace: str | Path | None = None,
    *,
    model: str,
    slo: str | None = None,
    rate: str | float | None = None,
    users: float | None = None,
    every: str | float | None = None,
    input_tokens: str | None = None,
    output_tokens: str | None = None,
    prefix_hits: float = 0.0,
    bin: str | float = "1h",
    gpus: str | Sequence[str] = GPUS,
    max_gpus: float | None = None,
    max_watts: float | None = None,
    max_usd_per_hour: float | None = None,
    minimize: str = "cost",
    mixed: bool = False,
    simulate: bool = False,
    places: str | None = None,
    places_by: str = "electricity",
    columns: str | None = None,
    growth: str | float | None = None,
    months: int = 12,
    progress: Progress = silent,
    **choices: Any,
) -> CapacityPlan | FleetPlan:
    """Plan servers of a model for recorded requests, or for a rate with distributions of lengths.

    `slo` has limits and the share of requests that keep all of them: `ttft=1s,tpot=50ms,p=99%`. A rate
    of `max` is the most that the budgets allow; `users` who ask `every` so often are a rate. A model
    may be several with their shares of the requests, `llama-3.1-8b=0.7,llama-3.1-70b=0.3`, or without
    shares where the recording says which was asked; then, or where `mixed`, the answer is a fleet of
    several kinds of servers. GPUs may say how many there are:
    `h100:16`. `places` such as `finland:200,france` have a grid, a tariff and kilowatts each, and the
    replicas of the peak stand where electricity costs or emits least (`places_by`). `columns` of a
    recording by other names are `time=created,in=prompt,out=answer`. `growth` is a share by which the
    traffic grows a month, for so many months. `choices` are those of a `Planner`: `dtypes`, `engines`,
    `tensor`, `offer`, `risk`, `spare` ...

    >>> plan = plan_capacity(model="llama-3.1-8b", rate=20, slo="ttft=1s,tpot=50ms", gpus=["h200"])
    >>> plan.best.gpus >= plan.floors[0].gpus
    True
    """
    assumed: list[str] = []
    if slo is None:
        slo = SLO
        assumed.append(
            f"--slo {SLO}, the limits of MLPerf Inference's server scenario of Llama 2 70B"
        )
    objective = read_objective(slo)
    assumed += [f"--slo {part} in milliseconds" for part in unitless(slo)]
    asked = _Asked(
        trace, rate, users, every, input_tokens, output_tokens, prefix_hits, bin, columns
    )
    monthly = None if growth is None else parse_share("--growth", growth)
    if not 1 <= months <= _MOST_MONTHS:
        raise InputError(f"--months: expected 1 to {_MOST_MONTHS}, got {months}")
    names, available = _available(each_of(gpus))
    limits = {"gpus": max_gpus, "watts": max_watts, "usd_per_hour": max_usd_per_hour}
    budget = Budget(
        **{name: value for name, value in limits.items() if value is not None}, available=available
    )
    halls = None if places is None else read_places(places)
    if halls is not None:
        budget = replace(budget, watts=min(budget.watts, sum(place.watts for place in halls)))
    shares = read_shares(model)
    is_fleet = mixed or len(shares) > 1
    by_model = None if None not in shares.values() else asked.by_model(list(shares))
    alone = {
        "--simulate": simulate, "--place": places is not None, "--growth": monthly is not None,
        "--spare": choices.get("spare"),
    }  # fmt: skip
    for name, is_asked in alone.items():
        if is_fleet and is_asked:
            raise InputError(f"{name}: expected one model without --mixed, got a fleet")

    def planner(name: str, traffic: Traffic, **more: Any) -> Planner:
        return Planner(
            name, traffic, objective, gpus=names, goal=minimize, progress=progress, **more,
            **choices,
        )  # fmt: skip

    if str(rate).strip().lower() == MOST:
        if is_fleet:
            raise InputError("--rate max: expected one model without --mixed, got a fleet")
        most = planner(model, asked.at(1.0)).most(budget)
        assumed.append(f"--rate {most:.4g}, the most within the budgets")
        traffic = asked.at(most)
    elif by_model is None:
        traffic = asked.traffic()
    else:
        traffic = max(by_model.values(), key=lambda own: len(own.periods))
    assumed += asked.assumed
    if len(traffic.periods) > 1 and not choices.get("start_seconds"):
        assumed.append("replicas start at once (--start-time)")
    try:
        if is_fleet:
            planners = [
                planner(name, traffic.share(share) if share else (by_model or {})[name])
                for name, share in shares.items()
            ]
            return replace(plan_fleet(planners, budget, minimize), assumed=tuple(assumed))
        made = planner(model, traffic, budget=budget)
        plan = made.plan()
    except InfeasibleError as error:
        if bare := unitless(slo):
            raise InfeasibleError(
                error.message, f"--slo {bare[0]} is in milliseconds; {bare[0]}s is in seconds"
            ) from None
        if slo != SLO or not assumed:
            raise
        raise InfeasibleError(f"{error.message} (--slo {SLO} was assumed)", error.hint) from None
    replayed = None
    if simulate:
        from assay.planner.capacity.simulation import simulate as run

        replayed = run(made.sizing_of(plan.best), plan.best, progress=progress)
    grown = [] if monthly is None else _months(made, plan.best, monthly, months, budget)
    stand = [] if halls is None else placed(plan.best, halls, places_by)
    own = {name: getattr(plan, name) for name in ServingPlan.__dataclass_fields__}
    return CapacityPlan(
        **{**own, "assumed": tuple(assumed)}, simulation=replayed, places=tuple(stand),
        growth=tuple(grown),
    )  # fmt: skip


def _months(
    planner: Planner, best: Option, monthly: float, months: int, budget: Budget
) -> list[GrowthMonth]:
    """The best server for the traffic of each month; all replicas are alike, so that more of them serve more."""
    rows = []
    for month in range(months + 1):
        factor = (1 + monthly) ** month
        option = planner.grown(best, factor) if month else best
        rows.append(
            GrowthMonth(
                month,
                factor * planner.traffic.peak,
                option.replicas,
                option.gpus,
                option.usd_per_hour,
                budget.excess(option) or "",
            )
        )
    return rows


@takes(_CHOICES, _SAID)
def plan_by_limits(
    *,
    model: str,
    rate: str | float,
    share: float = 0.99,
    input_tokens: str | None = None,
    output_tokens: str | None = None,
    prefix_hits: float = 0.0,
    gpus: str | Sequence[str] = GPUS,
    progress: Progress = silent,
    **choices: Any,
) -> RatesByLimits:
    """What each server of a model serves by limits of TTFT and TPOT that a share of the requests keeps.

    >>> plan = plan_by_limits(model="llama-3.1-8b", rate=200, gpus=["h200"], tensor=[1])
    >>> plan.cheapest(5, 11)[1] >= plan.cheapest(8, 14)[1]  # Replicas: looser limits need no more.
    True
    """
    asked = _Asked(None, rate, None, None, input_tokens, output_tokens, prefix_hits, HOUR, None)
    names, _ = _available(each_of(gpus))
    traffic = asked.traffic()
    # The ratio of prefill and decode workers is the one of middling limits.
    middling = Objective(FIRST_TOKEN[5], OUTPUT_TOKEN[7], share=share)
    planner = Planner(model, traffic, middling, gpus=names, progress=progress, **choices)
    return replace(rates_by_limits(planner), assumed=tuple(asked.assumed))


@dataclass
class _Asked:
    """What was said of a traffic, and what was taken where nothing was."""

    trace: str | Path | None
    rate: str | float | None
    users: float | None
    every: str | float | None
    input_tokens: str | None
    output_tokens: str | None
    prefix_hits: float
    bin: str | float
    columns: str | None

    @property
    def assumed(self) -> list[str]:
        """What was taken where nothing was said."""
        if self.trace is not None:
            return []
        lengths = {"--input-tokens": self.input_tokens, "--output-tokens": self.output_tokens}
        missing = [f"{name} {LENGTHS[name]}" for name, text in lengths.items() if text is None]
        return [*missing, "arrivals as a Poisson process"]

    def traffic(self) -> Traffic:
        """The traffic at the rate, or at the times, that were given."""
        if self.users is not None or self.every is not None:
            return self.at(self._rate_of_users())
        per_second = None if self.rate is None else parse_rate("--rate", self.rate)
        if self.rate is not None and per_second is None:
            raise InputError(
                "--rate: expected requests per second, got inf", "no server keeps up; --rate max"
            )
        if per_second is None and self.trace is None:
            raise InputError(
                "plan: expected recorded requests, --rate or --users, got none of them",
                "assay plan requests.jsonl ..., --rate 20, --rate max --max-power 500, or "
                "--users 10000 --every 5m",
            )
        return self.at(per_second)

    def by_model(self, names: Sequence[str]) -> dict[str, Traffic]:
        """The traffic of each of several models, as the recording has it."""
        if self.trace is None or self.rate is not None or self.users is not None:
            raise InputError(
                "--model: expected MODEL=SHARE, as no recording says which model was asked, got "
                + ", ".join(names)[:120],
                f"{names[0]}=0.7,{names[1]}=0.3",
            )
        bin_seconds = parse_duration("--bin", self.bin)
        return read_traffic_by_model(
            self.trace, names, bin_seconds=bin_seconds, columns=self.columns
        )

    def at(self, per_second: float | None) -> Traffic:
        """The traffic at a rate; at the times of the recording where it is None."""
        if self.trace is not None:
            bin_seconds = parse_duration("--bin", self.bin)
            return read_traffic(
                self.trace, rate=per_second, bin_seconds=bin_seconds, columns=self.columns
            )
        assert per_second is not None
        return drawn_traffic(
            per_second, self.input_tokens or LENGTHS["--input-tokens"],
            self.output_tokens or LENGTHS["--output-tokens"], self.prefix_hits,
        )  # fmt: skip

    def _rate_of_users(self) -> float:
        if self.rate is not None:
            raise InputError("--users: expected it without --rate, got both")
        if self.users is None or self.every is None:
            missing = "--users" if self.users is None else "--every"
            raise InputError(
                f"plan: expected {missing} beside the other of --users and --every, got none",
                "--users 10000 --every 5m: each user sends a request every five minutes",
            )
        if not 0 < self.users < math.inf:
            raise InputError(f"--users: expected a number above 0, got {self.users:g}")
        return self.users / parse_duration("--every", self.every)


def read_shares(text: str) -> dict[str, float | None]:
    """Models with their shares of the requests; one model alone has all.

    Several without shares have those of the recording.

    >>> read_shares("llama-3.1-8b=0.7,llama-3.1-70b=30%")
    {'llama-3.1-8b': 0.7, 'llama-3.1-70b': 0.3}
    >>> read_shares("llama-3.1-8b,llama-3.1-70b")
    {'llama-3.1-8b': None, 'llama-3.1-70b': None}
    """
    if "=" not in text:
        names = [name.strip() for name in text.split(",")]
        if len(names) == 1:
            return {text: 1.0}
        if not all(names) or len(set(names)) < len(names):
            raise InputError(f"--model: expected different models, got {text[:120]!r}")
        return dict.fromkeys(names)
    shares: dict[str, float | None] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        if not name.strip() or name.strip() in shares:
            raise InputError(f"--model: expected MODEL=SHARE once each, got {part[:60]!r}")
        shares[name.strip()] = parse_share(f"--model {name.strip()[:40]}", share)
    total = sum(share or 0.0 for share in shares.values())
    if not 0.999 < total < 1.001:
        raise InputError(f"--model: expected shares that add up to 100 %, got {100 * total:g} %")
    return shares


def _available(gpus: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Accelerators, and how many there are of those that say so, by their names in the catalog."""
    names, available = [], {}
    for text in gpus:
        name, sign, number = text.rpartition(":")
        if not sign or not number.isdecimal() or name == "cuda":
            names.append(text)
            continue
        names.append(name)
        available[hardware_spec(name).name] = int(number)
    return names, available
