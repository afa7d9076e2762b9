"""How many GPUs a traffic needs within a service level: the floor, the plan, and the next best one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from assay.answers import Answer, Progress, data_of, silent
from assay.catalog import entries
from assay.catalog.engines import frontend
from assay.errors import EvaluationError, InfeasibleError, InputError, unknown_name
from assay.lazy_import import np
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.candidates import (
    TENSOR,
    Candidate,
    batch_limits,
    candidates,
    floor_gpus,
)
from assay.planner.capacity.disaggregated import Disaggregated, disaggregated
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.option import LimitMissedError, Option, Site, Sizing, option_of
from assay.planner.capacity.served import Sample, sample_of
from assay.planner.capacity.traffic import Traffic
from assay.planner.evaluation import engine_notes
from assay.planner.prices import cheapest_offer, offer_of
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig, ModelSpec
from assay.plurals import count

GPUS: Final = ("h100", "h200", "b200", "a100")
"""Accelerators that are looked at where none is named."""
RISK: Final = 0.1
"""Probability that the objective is missed, by the model error of step times."""
_WORTH: Final = 1.02
"""Ratio of rates from which on another limit of running requests is worth it."""
_MOST_SPARE: Final = 1000
GOALS: Final = ("cost", "gpus", "power")
_JOULES_PER_KWH: Final = 3.6e6


@dataclass(frozen=True)
class Floor:
    """GPUs of one kind below which no plan serves the peak."""

    gpu: str
    gpus: float


@dataclass(frozen=True)
class ServingPlan(Answer):
    """What serves a traffic within an objective."""

    model: str
    traffic: dict[str, Any]
    objective: str
    goal: str
    best: Option
    second: Option | None
    """The best of another accelerator or layout."""
    options: Sequence[Option]
    """All that keep the objective and the budgets, the best first."""
    front: Sequence[Option]
    """Those that none is cheaper and more interactive than: cost against TPOT."""
    floors: Sequence[Floor]
    refused: Sequence[tuple[str, str]]
    """Servers that do not serve the traffic, and why."""
    assumed: Sequence[str] = ()
    """What was not said, and what was taken in its place."""

    def headline(self) -> str:
        """The best server, and its rent at the peak."""
        rent = self.best.peak_usd_per_hour
        return self.best.text + ("" if rent is None else f", ${rent:,.2f} an hour at the peak")

    def to_json(self) -> dict[str, Any]:
        """The plan; options by their figures."""
        return {
            **data_of(self, "model traffic objective assumed goal best second floors"),
            "options": [_row(option) for option in self.options],
            "front": [_row(option) for option in self.front],
            "refused": [{"server": name, "reason": reason} for name, reason in self.refused],
        }


def _row(option: Option) -> dict[str, Any]:
    return {
        **data_of(
            option,
            "gpu layout weight_dtype engine max_running replicas gpus usd_per_hour watts risk headroom",
        ),
        "ttft_p50": option.latencies["first_token"]["p50"].value,
        "tpot_p50": option.latencies["output_token"]["p50"].value,
    }


class Planner:
    """The servers that may serve a traffic, and the plans they make.

    `risk` is the probability, by the model error of step times, at which the objective may be missed.
    """

    def __init__(
        self, model: str, traffic: Traffic, objective: Objective, *, gpus: Sequence[str] = GPUS,
        dtypes: Sequence[str] = (), engines: Sequence[str] = ("vllm",), kv_dtype: str = "bf16",
        tensor: Sequence[int] | None = None, offer: str | None = None, site: str = "average",
        grid: str = "world", risk: float = RISK, goal: str = "cost", budget: Budget | None = None,
        routes_by_prefix: bool = False, apart: bool = False, start_seconds: float = 0.0,
        spare: int = 0, progress: Progress = silent,
    ) -> None:  # fmt: skip
        """Take the traffic and what servers may be made of; `apart` also disaggregates them."""
        from scipy.special import ndtri

        if not 0 < risk < 1:
            raise InputError(f"--risk: expected a share above 0 and below 100 %, got {risk:g}")
        if goal not in GOALS:
            raise unknown_name("figure of --minimize", goal, GOALS)
        self.model, self.traffic, self.objective = model_spec(model), traffic, objective
        self.goal, self.budget, self.progress = goal, budget or Budget(), progress
        self.routes_by_prefix, self.deviations = routes_by_prefix, float(ndtri(1 - risk))
        if not 0 <= spare <= _MOST_SPARE:
            raise InputError(f"--spare: expected 0 to {_MOST_SPARE} replicas, got {spare}")
        self.site, self.start_seconds, self.spare = _site(site, grid), start_seconds, spare
        longest = _longest(self.model, traffic)
        self.sample = sample_of(traffic.fresh(0.0), traffic.prompts, traffic.outputs)
        self.servers: list[Candidate] = []
        self.refused: list[tuple[str, str]] = []
        for gpu in gpus:
            hardware = hardware_spec(gpu)
            chosen = cheapest_offer(hardware, offer) if offer else None
            if offer and chosen is None:
                self.refused.append((hardware.name, f"no price of it at {offer} in the catalog"))
                continue
            hardware = replace(hardware, offer=chosen or "")
            for engine, dtype in product(engines, dtypes or (self.model.weight_dtype or "bf16",)):
                batch = BatchConfig(weight_dtype=dtype, kv_dtype=kv_dtype, engine=engine)
                fitting, others = candidates(
                    self.model, hardware, batch, self.sample, tensor=tensor or TENSOR,
                    longest=longest,
                )  # fmt: skip
                self.servers += fitting
                if apart:
                    self.servers += disaggregated(
                        fitting, self._shared_sample(), objective, self.deviations
                    )
                self.refused += [(other.name, other.reason) for other in others]
        self._sizings: dict[int, Sizing] = {}

    def _shared_sample(self) -> Sample:
        """The requests as servers see them whose prefix caches hold everything."""
        traffic = self.traffic
        if not self.routes_by_prefix:
            return self.sample
        return sample_of(traffic.fresh(math.inf), traffic.prompts, traffic.outputs)

    def plan(self) -> ServingPlan:
        """The best server and its replicas by hour; raises `InfeasibleError` where there is none."""
        options, refused = [], list(self.refused)
        over: list[tuple[Option, tuple[str, str]]] = []
        missed: list[tuple[float, tuple[str, str]]] = []
        for number, server in enumerate(self.servers, 1):
            self.progress(f"{number} of {len(self.servers)} servers: {server.name}")
            try:
                option = self._best_limit(server)
            except EvaluationError as error:
                refused.append((server.name, error.message))
                if isinstance(error, LimitMissedError):
                    missed.append((error.times, refused[-1]))
                continue
            if excess := self.budget.excess(option):
                named = f"{count(option.gpus, 'GPU')} of {server.name}"
                over.append((option, (named, excess)))
                continue
            options.append(option)
        # The nearest to its budget first: it says by how much to raise it.
        over.sort(key=lambda pair: _figure(pair[0], self.goal))
        beyond = [said for _, said in over]
        if not options:
            # The server that misses its limit by least is said.
            refused += [said for _, said in sorted(missed, reverse=True)]
            raise _nothing(self.model, self.objective, refused, beyond)
        options.sort(key=lambda option: _figure(option, self.goal))
        best = options[0]
        second = next((o for o in options if (o.gpu, o.layout) != (best.gpu, best.layout)), None)
        return ServingPlan(
            self.model.name, _summary(self.traffic), str(self.objective), self.goal, best, second,
            options, _front(options), _floors(self.servers, self.sample, self.traffic.peak),
            (*refused, *beyond), notes=self.notes([best] if second is None else [best, second]),
        )  # fmt: skip

    def most(self, budget: Budget) -> float:
        """The highest rate that servers of one kind serve within the budgets."""
        limits = (budget.gpus, budget.watts, budget.usd_per_hour, *budget.available.values())
        if not any(math.isfinite(limit) for limit in limits):
            raise InputError(
                "--rate max: expected a budget, got none",
                "--max-gpus, --max-power, --max-cost, or --gpu h100:16",
            )
        rates = {}
        for number, server in enumerate(self.servers, 1):
            self.progress(f"{number} of {len(self.servers)} servers: {server.name}")
            spent = {
                "gpus": float(server.gpus),
                "watts": server.rated_watts and server.rated_watts * self.site.pue,
                "usd_per_hour": server.usd_per_hour,
            }
            most = math.inf
            for name, each in spent.items():
                if math.isfinite(limit := getattr(budget, name)):
                    most = min(most, limit / each if each else 0.0)
            most = min(most, budget.available.get(server.hardware.name, math.inf) / server.gpus)
            if self.spare + 1 <= most < math.inf:
                serving = math.floor(most) - self.spare
                rates[server.name] = serving * self._sizing(server).rate_each
        if not any(rates.values()):
            raise InfeasibleError(
                f"no server of {self.model.name} keeps {self.objective} within the budgets",
                "raise the budget or the limits",
            )
        # A hair below, so that as many replicas keep it.
        return (1 - 1e-6) * max(rates.values())

    def _sizing(self, server: Candidate, traffic: Traffic | None = None) -> Sizing:
        return Sizing(
            server, traffic or self.traffic, self.objective, deviations=self.deviations,
            routes_by_prefix=self.routes_by_prefix, start_seconds=self.start_seconds,
            spare=self.spare,
        )  # fmt: skip

    def grown(self, option: Option, factor: float) -> Option:
        """The same server for so many times the traffic; raises `EvaluationError` where no number of it serves."""
        server = self.sizing_of(option).candidate
        return option_of(self._sizing(server, self.traffic.scaled(factor)), self.site)

    def sizing_of(self, option: Option) -> Sizing:
        """The server of an option of the plan."""
        return self._sizings[id(option)]

    def _best_limit(self, server: Candidate) -> Option:
        """The better of a server's limits of running requests."""
        options: list[Option] = []
        problem = EvaluationError("no rate keeps the objective")
        best_rate = -1.0
        for limited in batch_limits(server, self.sample, self.objective.output_token):
            sizing = self._sizing(limited)
            # A smaller limit that serves no more is not worth another evaluation.
            if sizing.rate_each <= _WORTH * best_rate:
                continue
            best_rate = sizing.rate_each
            try:
                option = option_of(sizing, self.site)
            except EvaluationError as error:
                problem = error
                continue
            self._sizings[id(option)] = sizing
            options.append(option)
        if not options:
            raise problem
        return min(options, key=lambda option: _figure(option, self.goal))

    def notes(self, options: Sequence[Option] | None = None) -> tuple[str, ...]:
        """What a reader must know beside a plan of these options, or of every server."""
        traffic = self.traffic
        notes = [*traffic.notes, self.site.text]
        if traffic.reuse is not None:
            how = "the replica that has their prefix" if self.routes_by_prefix else "any replica"
            notes.append(f"prefix cache (LRU): requests come to {how}; --routing changes it")
        shown = None if options is None else {option.gpu for option in options}
        for server in {server.hardware.name: server for server in self.servers}.values():
            if shown is not None and server.hardware.name not in shown:
                continue
            hardware, offer = server.hardware, offer_of(server.hardware)
            notes.append(
                f"{hardware.name}: no rent in the catalog, so that its cost is not known"
                if offer is None
                else offer.note
            )
            notes.append(
                f"{hardware.name}: power and energy of the boards alone, as the catalog has no node of it"
                if server.host is None
                else f"{hardware.name}: power and energy with host, network, fans and supplies of "
                f"{server.host.name}"
            )
            notes += [*hardware.notes, *engine_notes(server.batch, hardware)]
        notes += [
            f"{engine}: one API process takes {1e3 * api.request:g} ms a request and "
            f"{1e6 * api.token:g} us a token, as measured on one host; several "
            "(--api-server-count) take less"
            for engine in dict.fromkeys(server.batch.engine for server in self.servers)
            if (api := frontend(engine)) is not None
        ]
        return tuple(dict.fromkeys([*notes, *self.model.notes]))


def _longest(model: ModelSpec, traffic: Traffic) -> float:
    lengths = traffic.prompts + traffic.outputs
    longest = float(lengths.max())
    if model.context and longest > model.context:
        beyond = int((lengths > model.context).sum())
        raise InputError(
            f"{traffic.name}: expected requests of at most {model.context:,} tokens, the context of "
            f"{model.name}, got {beyond:,} longer ones, up to {longest:,.0f}",
            "name a model with a longer context",
        )
    return longest


def _figure(option: Option, goal: str) -> tuple[float, ...]:
    """What options are ordered by; those without a known figure come last."""
    figures = {"cost": option.usd_per_hour, "gpus": float(option.gpus), "power": option.watts}
    known = [math.inf if value is None else value for value in figures.values()]
    first = figures[goal]
    return (math.inf if first is None else first, *known)


def _front(options: Iterable[Option]) -> list[Option]:
    """The options that no other beats in both cost and TPOT, the cheapest first."""
    priced = [option for option in options if option.usd_per_hour is not None]
    front: list[Option] = []
    fastest = math.inf
    for option in sorted(priced, key=lambda o: (o.usd_per_hour or 0.0, _tpot(o))):
        if _tpot(option) < fastest:
            fastest = _tpot(option)
            front.append(option)
    return front


def _tpot(option: Option) -> float:
    return option.latencies["output_token"]["p50"].value


def _floors(servers: Sequence[Candidate], sample: Sample, rate: float) -> list[Floor]:
    """The least GPUs of each kind over all mixes of layouts."""
    kinds = {server.hardware.name: server.hardware for server in servers}
    # Groups of workers mix the steps of other layouts.
    whole = [server for server in servers if not isinstance(server, Disaggregated)]
    floors = [
        Floor(name, floor_gpus([own for own in whole if own.hardware.name == name], sample, rate))
        for name in kinds
    ]
    return sorted(floors, key=lambda floor: floor.gpus)


def _site(site: str, grid: str) -> Site:
    place, source = entries.read("sites", site), entries.read("grids", grid)
    pue = place.given.get("thermal.dc.stated_pue")
    if pue is None:
        raise InputError(
            f"--site {site}: expected a site that states its PUE, got one that does not",
            "sites/average does",
        )
    intensity = source.given["carbon.grid.intensity"]
    return Site(
        pue, intensity,
        f"PUE {pue:g} of sites/{site}, {1e3 * intensity * _JOULES_PER_KWH:,.0f} g CO2e/kWh of "
        f"grids/{grid}",
    )  # fmt: skip


def _summary(traffic: Traffic) -> dict[str, Any]:
    levels = (0.5, 0.9, 0.99)
    names = ("p50", "p90", "p99")
    return {
        "name": traffic.name,
        "requests": round(traffic.requests),
        "seconds": traffic.seconds,
        "mean_rate": traffic.requests / traffic.seconds,
        "peak_rate": traffic.peak,
        "busiest": traffic.stretch and data_of(traffic.stretch, "start seconds rate"),
        "dispersion": traffic.dispersion,
        "input": {
            "mean": float(traffic.prompts.mean()),
            **dict(zip(names, np.quantile(traffic.prompts, levels).tolist(), strict=True)),
        },
        "output": {
            "mean": float(traffic.outputs.mean()),
            **dict(zip(names, np.quantile(traffic.outputs, levels).tolist(), strict=True)),
        },
    }


def _nothing(
    model: ModelSpec, objective: Objective, refused: Sequence[tuple[str, str]],
    beyond: Sequence[tuple[str, str]],
) -> InfeasibleError:  # fmt: skip
    """What binds where there is no plan."""
    name, reason = ("no server", "no accelerator was named")
    if beyond or refused:
        name, reason = beyond[0] if beyond else refused[-1]
    what = "the budgets" if beyond else str(objective)
    return InfeasibleError(
        f"no server of {model.name} keeps {what}: {name}: {reason}",
        "raise the budget"
        if beyond
        else "raise the limit, or name faster GPUs or a smaller format",
    )
