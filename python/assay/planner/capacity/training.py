"""Plans of training runs: GPUs and layout by accelerator, failures, checkpoints, spares, goodput and cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.answers import Answer, Progress, data_of, silent
from assay.catalog import accelerators
from assay.errors import InfeasibleError, InputError
from assay.model.resolving.resolve import make_resolver
from assay.plurals import amount
from assay.scenario.questions.estimating import estimate

GPUS: Final = ("h100_sxm", "h200_sxm", "b200_sxm")
"""Accelerators that are looked at where none is named."""
SPARED: Final = 0.99
"""Share of the time in which there are enough spare nodes."""
_FIGURES: Final = {
    "gpus": "training.gpus",
    "nodes": "cluster.job.nodes",
    "seconds": "econ.run.duration",
    "tokens_per_second": "training.tokens_per_second",
    "mfu": "training.mfu",
    "gpu_hours": "training.gpu_hours",
    "goodput": "training.run_yield",
    "availability": "cluster.run.availability",
    "planned_share": "cluster.run.planned_share",
    "productive_share": "cluster.run.productive_share",
    "straggling": "training.straggling",
    "mtbf_seconds": "cluster.job.mtbf",
    "interruptions": "cluster.run.interruptions",
    "checkpoint_seconds": "cluster.checkpoint.interval",
    "stall_seconds": "cluster.checkpoint.stall",
    "restart_seconds": "cluster.job.restart_time",
    "usd": "econ.run.total_cost",
    "joules": "econ.run.energy",
    "kilograms": "carbon.run.total",
}
"""Figures of a run, and the variable that each is."""
_YEAR: Final = 365.25 * 86400
_LAYOUT: Final = ("tensor", "pipeline", "expert", "interleave", "zero_stage", "micro_batch")


@dataclass(frozen=True)
class TrainingOption:
    """A run on one kind of accelerator; a figure is None where its inputs are not known."""

    gpu: str
    layout: Mapping[str, float]
    figures: Mapping[str, float | None]
    spare_nodes: int | None
    """Nodes beyond those of the job, so that a failed one is replaced at once; None where unknown."""
    unknown: Mapping[str, str]
    """What is not known, and what it needs."""
    terms: str
    """Whether the GPUs are rented or owned, and at what price."""
    floor_gpus: float | None
    """GPUs that are done in time at their data-sheet peak, without interruptions: none uses fewer."""


@dataclass(frozen=True)
class TrainingPlan(Answer):
    """The fewest GPUs of each kind that train a model in time, the cheapest run first."""

    model: str
    tokens: str
    days: float
    options: Sequence[TrainingOption]
    refused: Sequence[tuple[str, str]]

    def to_json(self) -> dict[str, Any]:
        """The runs, and the accelerators without one."""
        return {
            **data_of(self, "model tokens days options"),
            "refused": [{"gpu": gpu, "reason": reason} for gpu, reason in self.refused],
        }


def plan_training(
    model: str,
    tokens: str,
    days: float,
    *,
    gpus: Sequence[str] = GPUS,
    where: str = "us_virginia",
    offer: str | None = None,
    repair_hours: float | None = None,
    progress: Progress = silent,
) -> TrainingPlan:
    """Plan a training run: the fewest GPUs that are done in time, interruptions included, by accelerator.

    `repair_hours` is how long a failed node is away; without it the spare nodes are not known.
    """
    if not 0 < days < 1e5:
        raise InputError(f"--days: expected a number above 0, got {days:g}")
    if repair_hours is not None and not 0 <= repair_hours < 1e5:
        raise InputError(f"--repair: expected hours of 0 or more, got {repair_hours:g}")
    options: list[TrainingOption] = []
    refused: list[tuple[str, str]] = []
    notes: list[str] = []
    names = [accelerators.find(name).name for name in gpus]
    for number, gpu in enumerate(names, 1):
        progress(f"{number} of {len(names)} accelerators: {model} on {gpu}")
        try:
            answer = estimate(model, gpu, tokens, where, days=days, offer=offer)
        except InfeasibleError as error:
            refused.append((gpu, error.message))
            continue
        options.append(_option(gpu, answer.estimate.preset, repair_hours, 86400 * days))
        notes += [f"{gpu}: {note}" for note in answer.notes]
    if not options:
        raise InfeasibleError(
            f"no run of {model} is done in {amount(days, 'day')}: "
            + "; ".join(f"{gpu}: {reason}" for gpu, reason in refused),
            "raise --days, or name other --gpu",
        )
    options.sort(key=lambda option: option.figures["usd"] or math.inf)
    return TrainingPlan(model, tokens, days, options, refused, notes=tuple(notes))


def _option(gpu: str, preset: Any, repair_hours: float | None, within: float) -> TrainingOption:
    resolver = make_resolver(preset.registry, preset.exact_inputs, preset.variants)
    figures = {name: resolver.value(variable) for name, variable in _FIGURES.items()}
    unknown = {
        name: f"{_FIGURES[name]} lacks inputs" for name, value in figures.items() if value is None
    }
    if (gpu_seconds := figures["gpu_hours"]) is not None:
        figures["gpu_hours"] = gpu_seconds / 3600
    layout = {name: resolver.value(f"parallelism.{name}") for name in _LAYOUT}
    spares = None
    rate, shared = (
        resolver.value(f"cluster.{name}") for name in ("job.failure_rate", "failures.shared_rate")
    )
    if repair_hours is None:
        unknown["spare_nodes"] = "how long a failed node is away (--repair HOURS)"
    elif rate is None or shared is None:
        unknown["spare_nodes"] = "cluster.job.failure_rate lacks inputs"
    else:
        spares = spare_nodes((rate - shared) * 3600.0 * repair_hours)
    known = {name: value for name, value in layout.items() if value is not None}
    return TrainingOption(
        gpu, known, figures, spares, unknown, _terms(resolver), _floor(figures, within)
    )


def _floor(figures: Mapping[str, float | None], within: float) -> float | None:
    """GPUs whose peak rate is that of the model FLOPs of the run over the time that it has."""
    parts = [figures[name] for name in ("gpus", "mfu", "goodput", "seconds")]
    return None if None in parts else math.prod(part or 0.0 for part in parts) / within


def _terms(resolver: Any) -> str:
    """Whether the GPUs of a run are rented or owned, and at what price."""
    if resolver.value("econ.rented"):
        rent = resolver.value("econ.rent.price")
        return "rented" if rent is None else f"rented at {3600 * rent:,.4g} USD/h a GPU"
    price = resolver.value("econ.gpu.price")
    years = resolver.value("econ.machines.lifetime")
    bought = "" if price is None else f" at {price:,.0f} USD a GPU"
    over = "" if years is None else f" over {years / _YEAR:.3g} years"
    return f"owned: bought{bought} and written off{over}; --offer PROVIDER rents"


def spare_nodes(away: float, share: float = SPARED) -> int:
    """The fewest spares that are enough for a share of the time, where so many nodes are away on average.

    Nodes that fail by themselves and are away for a while are Poisson in number, however long each is away
    (Palm 1943: M/G/oo).

    >>> spare_nodes(0.0), spare_nodes(1.0), spare_nodes(5.0)
    (0, 4, 11)
    """
    below = term = math.exp(-away)
    number = 0
    while below < share:
        number += 1
        term *= away / number
        below += term
    return number
