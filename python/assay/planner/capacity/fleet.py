"""Servers of several kinds for several models, under budgets that they share: an integer program.

Each kind of server serves a rate within its objective. The cheapest numbers of servers that serve every
model, and exceed no budget, are found by branch and bound (HiGHS), with the gap to the optimum that it states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.errors import InfeasibleError
from assay.lazy_import import np
from assay.planner.capacity.budget import Budget

_SLACK: Final = 1e-9
"""Share of a rate that may be missing by rounding."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A server that a fleet may have any number of; money and power are None where unknown."""

    model: str
    name: str
    gpu: str
    gpus: int
    rate: float
    """Requests per second within the objective."""
    usd_per_hour: float | None
    watts: float | None
    """The most that it draws at the meter."""

    def spent(self, resource: str) -> float | None:
        """What one of it takes of a budget."""
        return {
            "gpus": float(self.gpus), "usd_per_hour": self.usd_per_hour, "watts": self.watts
        }[resource]  # fmt: skip


@dataclass(frozen=True)
class Fleet:
    """How many servers of each kind, and how far from the least figure they may be."""

    counts: tuple[int, ...]
    gpus: int
    usd_per_hour: float | None
    watts: float | None
    gap: float
    """The most by which a better fleet could be better, as a share."""


def choose_fleet(
    kinds: Sequence[Kind], demands: Mapping[str, float], budget: Budget, goal: str = "cost"
) -> Fleet:
    """The fleet with the least of a figure that serves all demands within the budgets.

    Raises `InfeasibleError` where there is none, with the model or the budget that binds.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    resource = {"cost": "usd_per_hour", "gpus": "gpus", "power": "watts"}[goal]
    usable = [
        index
        for index, kind in enumerate(kinds)
        if kind.rate > 0
        and demands.get(kind.model, 0.0) > 0
        and kind.spent(resource) is not None
        and all(kind.spent(name) is not None for name in _limited(budget))
    ]
    for model, demand in demands.items():
        if demand > 0 and not any(kinds[index].model == model for index in usable):
            raise InfeasibleError(
                f"no server of {model} has a known {resource}", "name other GPUs, or --offer"
            )
    rows, low, high = _rows([kinds[index] for index in usable], demands, budget)
    cost = np.array([kinds[index].spent(resource) for index in usable], float)
    most = [math.ceil(demands[kinds[index].model] / kinds[index].rate) for index in usable]
    solved = milp(
        cost / max(float(cost.max()), 1e-300), integrality=np.ones(len(usable), dtype=np.int64),
        bounds=Bounds(0, np.array(most, float)), constraints=LinearConstraint(rows, low, high),
        options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    if solved.x is None:
        raise InfeasibleError(
            f"no fleet serves {_words(demands)} within the budgets",
            f"raise one of them: {', '.join(_limited(budget) + list(budget.available)) or 'none'}",
        )
    counts = [0] * len(kinds)
    for index, number in zip(usable, solved.x, strict=True):
        counts[index] = round(float(number))
    return fleet_of(kinds, counts, demands, budget, float(solved.mip_gap or 0.0))


def fleet_of(
    kinds: Sequence[Kind], counts: Sequence[int], demands: Mapping[str, float], budget: Budget,
    gap: float,
) -> Fleet:  # fmt: skip
    """A fleet of so many servers of each kind; raises where it breaks a demand or a budget."""
    _check(kinds, counts, demands, budget)
    return Fleet(
        tuple(counts), sum(n * kind.gpus for n, kind in zip(counts, kinds, strict=True)),
        _total(kinds, counts, "usd_per_hour"), _total(kinds, counts, "watts"), gap,
    )  # fmt: skip


def _limited(budget: Budget) -> list[str]:
    return [
        name for name in ("gpus", "watts", "usd_per_hour") if math.isfinite(getattr(budget, name))
    ]


def _rows(
    kinds: Sequence[Kind], demands: Mapping[str, float], budget: Budget
) -> tuple[Any, Any, Any]:
    """Constraints: every model is served, no budget is exceeded, no GPU is there twice."""
    rows, low, high = [], [], []
    for model, demand in demands.items():
        if demand > 0:
            # In shares of the demand, so that the solver's tolerance is relative.
            rows.append([kind.rate / demand if kind.model == model else 0.0 for kind in kinds])
            low.append(1.0)
            high.append(np.inf)
    for name in _limited(budget):
        most = max(float(getattr(budget, name)), 1e-300)
        rows.append([(kind.spent(name) or 0.0) / most for kind in kinds])
        low.append(-np.inf)
        high.append(1.0)
    for gpu, number in budget.available.items():
        rows.append([float(kind.gpus) if kind.gpu == gpu else 0.0 for kind in kinds])
        low.append(-np.inf)
        high.append(float(number))
    return np.array(rows), np.array(low), np.array(high)


def _total(kinds: Sequence[Kind], counts: Sequence[int], name: str) -> float | None:
    parts = [(n, kind.spent(name)) for n, kind in zip(counts, kinds, strict=True) if n]
    if any(value is None for _, value in parts):
        return None
    return math.fsum(n * (value or 0.0) for n, value in parts)


def _check(
    kinds: Sequence[Kind], counts: Sequence[int], demands: Mapping[str, float], budget: Budget
) -> None:
    """Refuse a fleet that breaks a constraint by the tolerance of the solver."""
    chosen = list(zip(counts, kinds, strict=True))
    for model, demand in demands.items():
        served = math.fsum(n * kind.rate for n, kind in chosen if kind.model == model)
        if served < demand * (1 - _SLACK):
            raise InfeasibleError(f"no fleet serves {demand:g} requests/s of {model}")
    for name in _limited(budget):
        spent = _total(kinds, counts, name)
        if spent is None or spent > getattr(budget, name):
            raise InfeasibleError(f"no fleet keeps {name} of {getattr(budget, name):,.6g}")
    for gpu, number in budget.available.items():
        used = sum(n * kind.gpus for n, kind in chosen if kind.gpu == gpu)
        if used > number:
            raise InfeasibleError(f"no fleet has {number:,} {gpu} or fewer")


def _words(demands: Mapping[str, float]) -> str:
    return ", ".join(f"{rate:,.4g} requests/s of {model}" for model, rate in demands.items())
