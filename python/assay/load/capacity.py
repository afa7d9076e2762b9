"""`plan`: how many GPUs a traffic needs within a service level, from recorded requests or a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.answers import Progress, silent
from assay.errors import InputError
from assay.load.traffic import drawn_traffic, read_objective, read_traffic
from assay.load.workloads.spec import parse_duration, parse_rate
from assay.planner.capacity.planning import GPUS, RISK, Budget, Planner, ServingPlan

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
    format: str | None = None,
    bin: str | float = "1h",
    gpus: Sequence[str] = GPUS,
    dtypes: Sequence[str] = (),
    engines: Sequence[str] = ("vllm",),
    kv_dtype: str = "bf16",
    tensor: Sequence[int] | None = None,
    offer: str | None = None,
    site: str = "average",
    grid: str = "world",
    risk: float = RISK,
    minimize: str = "cost",
    max_gpus: float | None = None,
    max_watts: float | None = None,
    max_usd_per_hour: float | None = None,
    routes_by_prefix: bool = False,
    simulate: bool = False,
    progress: Progress = silent,
) -> CapacityPlan:
    """Plan servers of a model for recorded requests, or for a rate with distributions of lengths.

    `slo` has limits and the share of requests that keep all of them: `ttft=1s,tpot=50ms,p=99%`.

    >>> plan = plan_capacity(model="llama-3.1-8b", rate=20, slo="ttft=1s,tpot=50ms", gpus=["h200"])
    >>> plan.best.gpus >= plan.floors[0].gpus
    True
    """
    per_second = None if rate is None else parse_rate("--rate", rate)
    if rate is not None and per_second is None:
        raise InputError("--rate: expected requests per second, got inf", "no server keeps up")
    objective = read_objective(slo)
    if trace is not None:
        traffic = read_traffic(
            trace, format=format, rate=per_second, bin_seconds=parse_duration("--bin", bin)
        )
    elif per_second is not None:
        traffic = drawn_traffic(per_second, input_tokens, output_tokens, prefix_hits)
    else:
        raise InputError(
            "plan: expected recorded requests or --rate, got neither",
            "assay plan requests.jsonl ..., or assay plan --rate 20 --input-tokens 1024 ...",
        )
    limits = {"gpus": max_gpus, "watts": max_watts, "usd_per_hour": max_usd_per_hour}
    budget = Budget(**{name: value for name, value in limits.items() if value is not None})
    planner = Planner(
        model, traffic, objective, gpus=gpus, dtypes=dtypes, engines=engines, kv_dtype=kv_dtype,
        tensor=tensor, offer=offer, site=site, grid=grid, risk=risk, goal=minimize, budget=budget,
        routes_by_prefix=routes_by_prefix, progress=progress,
    )  # fmt: skip
    plan = planner.plan()
    replayed = None
    if simulate:
        from assay.planner.capacity.simulation import simulate as run

        replayed = run(planner.sizing_of(plan.best), plan.best, progress=progress)
    own = {name: getattr(plan, name) for name in ServingPlan.__dataclass_fields__}
    return replace(CapacityPlan(**own), simulation=replayed)
