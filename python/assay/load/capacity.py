"""`plan`: how many GPUs a traffic needs within a service level, from recorded requests or a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.answers import Progress, silent
from assay.errors import InputError
from assay.load.traffic import drawn_traffic, read_objective, read_traffic
from assay.load.workloads.spec import parse_duration, parse_rate, parse_share
from assay.planner.capacity.budget import Budget
from assay.planner.capacity.fleet_plan import FleetPlan, plan_fleet
from assay.planner.capacity.planning import GPUS, Planner, ServingPlan
from assay.planner.capacity.traffic import Traffic
from assay.planner.sources import hardware_spec

if TYPE_CHECKING:
    from assay.planner.capacity.simulation import Simulation


@dataclass(frozen=True)
class CapacityPlan(ServingPlan):
    """A plan, with what a replay of it says."""

    simulation: Simulation | None = None

    def to_json(self) -> dict[str, Any]:
        """The plan, and the replay."""
        replayed = None if self.simulation is None else self.simulation.to_data()
        return {**super().to_json(), "simulation": replayed}


def plan_capacity(
    trace: str | Path | None = None,
    *,
    model: str,
    slo: str,
    rate: str | float | None = None,
    input_tokens: str = "1024",
    output_tokens: str = "128",
    prefix_hits: float = 0.0,
    bin: str | float = "1h",
    gpus: Sequence[str] = GPUS,
    max_gpus: float | None = None,
    max_watts: float | None = None,
    max_usd_per_hour: float | None = None,
    minimize: str = "cost",
    mixed: bool = False,
    simulate: bool = False,
    progress: Progress = silent,
    **choices: Any,
) -> CapacityPlan | FleetPlan:
    """Plan servers of a model for recorded requests, or for a rate with distributions of lengths.

    `slo` has limits and the share of requests that keep all of them: `ttft=1s,tpot=50ms,p=99%`. A
    model may be several with their shares of the requests, `llama-3.1-8b=0.7,llama-3.1-70b=0.3`; then,
    or where `mixed`, the answer is a fleet of several kinds of servers. GPUs may say how many there
    are: `h100:16`. `choices` are those of a `Planner`: `dtypes`, `engines`, `tensor`, `offer`, `risk` ...

    >>> plan = plan_capacity(model="llama-3.1-8b", rate=20, slo="ttft=1s,tpot=50ms", gpus=["h200"])
    >>> plan.best.gpus >= plan.floors[0].gpus
    True
    """
    objective = read_objective(slo)
    traffic = _traffic(trace, rate, input_tokens, output_tokens, prefix_hits, bin)
    names, available = _available(gpus)
    limits = {"gpus": max_gpus, "watts": max_watts, "usd_per_hour": max_usd_per_hour}
    budget = Budget(
        **{name: value for name, value in limits.items() if value is not None}, available=available
    )
    shares = read_shares(model)
    if mixed or len(shares) > 1:
        if simulate:
            raise InputError("--simulate: expected one model without --mixed, got a fleet")
        planners = [
            Planner(
                name,
                traffic.share(share),
                objective,
                gpus=names,
                goal=minimize,
                progress=progress,
                **choices,
            )
            for name, share in shares.items()
        ]
        return plan_fleet(planners, budget, minimize)
    planner = Planner(
        model, traffic, objective, gpus=names, goal=minimize, budget=budget, progress=progress,
        **choices,
    )  # fmt: skip
    plan = planner.plan()
    replayed = None
    if simulate:
        from assay.planner.capacity.simulation import simulate as run

        replayed = run(planner.sizing_of(plan.best), plan.best, progress=progress)
    own = {name: getattr(plan, name) for name in ServingPlan.__dataclass_fields__}
    return CapacityPlan(**own, simulation=replayed)


def _traffic(
    trace: str | Path | None, rate: str | float | None, input_tokens: str, output_tokens: str,
    prefix_hits: float, bin: str | float,
) -> Traffic:  # fmt: skip
    per_second = None if rate is None else parse_rate("--rate", rate)
    if rate is not None and per_second is None:
        raise InputError("--rate: expected requests per second, got inf", "no server keeps up")
    if trace is not None:
        return read_traffic(trace, rate=per_second, bin_seconds=parse_duration("--bin", bin))
    if per_second is None:
        raise InputError(
            "plan: expected recorded requests or --rate, got neither",
            "assay plan requests.jsonl ..., or assay plan --rate 20 --input-tokens 1024 ...",
        )
    return drawn_traffic(per_second, input_tokens, output_tokens, prefix_hits)


def read_shares(text: str) -> dict[str, float]:
    """Models with their shares of the requests; one model alone has all.

    >>> read_shares("llama-3.1-8b=0.7,llama-3.1-70b=30%")
    {'llama-3.1-8b': 0.7, 'llama-3.1-70b': 0.3}
    """
    if "=" not in text:
        return {text: 1.0}
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        if not name.strip() or name.strip() in shares:
            raise InputError(f"--model: expected MODEL=SHARE once each, got {part[:60]!r}")
        shares[name.strip()] = parse_share(f"--model {name.strip()[:40]}", share)
    total = sum(shares.values())
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
