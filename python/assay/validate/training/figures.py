"""Observed figures of a training case, in terms of outputs of the graph.

Achieved FLOP/s are converted to step times by the FLOP count that the notes state; MFU is never
used, because its conventions differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from assay.validate.cases import Case


@dataclass(frozen=True)
class ObservedFigure:
    """One observed figure; `kind` selects the output of the graph to compare with."""

    quantity: str
    kind: str
    unit: str
    observed: float
    tokens: float | None = None
    notes: tuple[str, ...] = ()
    by_hour: float = 1.0
    """Of figures that are proportional to GPU-hours: the figure of one GPU-hour."""


_HOURS = ("gpu_hours", "gpu_hours_pretrain")
_MEMORY = {
    "param_plus_optimizer_GiB": "states",
    "activations_tp_only_GiB": "activations, whole",
    "activations_seqpar_selective_GiB": "activations, selective",
}
_DAYS = re.compile(r"training_days_(\d+(?:\.\d+)?)([BT])_tokens")


@dataclass(frozen=True)
class StepWork:
    """Work of a step, which converts rates to times: sequences, tokens, GPUs and FLOPs."""

    batch: float
    tokens: float
    gpus: float | None
    model_flops: float
    recomputes: bool


def figures_of(case: Case, step: StepWork, total_tokens: float | None) -> list[ObservedFigure]:
    """The figures of a case.

    A rate that is just the run's tokens over its GPU-hours is the same figure stated twice.
    """
    observed = case.observed
    figures: list[ObservedFigure] = []
    gpus = step.gpus
    timed = _step_seconds(case, step)
    hours = observed.get("gpu_hours")
    rate = observed.get("tokens_per_s_per_gpu")
    is_repeated = bool(
        hours and rate and total_tokens and abs(total_tokens / (hours * 3600 * rate) - 1) < 0.02
    )
    if timed is not None and not is_repeated:
        seconds, notes = timed
        figures.append(ObservedFigure("step_time", "step", "s", seconds, notes=notes))
    for name in _HOURS:
        if isinstance(observed.get(name), (int, float)):
            figures.append(ObservedFigure("gpu_hours", "hours", "GPU*h", float(observed[name])))
            break
    if isinstance(observed.get("days"), (int, float)) and gpus:
        figures.append(
            ObservedFigure("gpu_hours", "hours", "GPU*h", float(observed["days"]) * 24 * gpus)
        )
    for name, value in observed.items():
        if (days := _DAYS.fullmatch(name)) and gpus:
            run = float(days[1]) * (1e9 if days[2] == "B" else 1e12)
            hours = float(value) * 24 * gpus
            figures.append(ObservedFigure("ideal_gpu_hours", "ideal hours", "GPU*h", hours, run))
    figures += _by_hours(case)
    for name, part in _MEMORY.items():
        if isinstance(observed.get(name), (int, float)):
            figures.append(
                ObservedFigure(name.removesuffix("_GiB"), part, "GiB/GPU", float(observed[name]))
            )
    if isinstance(observed.get("total_train_flop"), (int, float)):
        figures.append(
            ObservedFigure("total_train_flop", "flops", "FLOP", float(observed["total_train_flop"]))
        )
    return figures


def _by_hours(case: Case) -> list[ObservedFigure]:
    """Energy, emissions and cost, at the power, PUE, intensity and rent that the case states."""
    observed, inputs = case.observed, case.inputs

    def number(name: str) -> float | None:
        value = inputs.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    figures = []
    watts, pue = number("gpu_power_W"), number("pue")
    if isinstance(observed.get("energy_MWh"), (int, float)) and watts and pue:
        note = f"energy: GPU-hours at {watts:g} W and a PUE of {pue:g}, as the source counts it"
        figures.append(
            ObservedFigure(
                "energy", "hours", "MWh", float(observed["energy_MWh"]), notes=(note,),
                by_hour=watts * pue / 1e6,
            )
        )  # fmt: skip
    intensity = number("carbon_kg_per_kWh")
    if isinstance(observed.get("carbon_tCO2eq"), (int, float)) and watts and pue and intensity:
        note = f"emissions: {watts:g} W, PUE {pue:g}, {intensity:g} kg/kWh, as the source counts"
        figures.append(
            ObservedFigure(
                "carbon", "hours", "t", float(observed["carbon_tCO2eq"]), notes=(note,),
                by_hour=watts * pue * intensity / 1e6,
            )
        )  # fmt: skip
    rent, hours = number("usd_per_gpu_hour"), observed.get("gpu_hours_pretrain")
    if isinstance(observed.get("cost_usd_total"), (int, float)) and rent and hours:
        share = float(hours) / float(observed.get("gpu_hours_total") or hours)
        note = f"cost at {rent:g} USD/(GPU*h); the share of pre-training in it is {share:.3f}"
        figures.append(
            ObservedFigure(
                "cost", "hours", "USD", float(observed["cost_usd_total"]) * share, notes=(note,),
                by_hour=rent,
            )
        )  # fmt: skip
    return figures


UNPREDICTED = {
    "carbon_tCO2eq_location_based": "the case states neither PUE nor the intensity of its grids"
}
"""Figures that no field of their cases determines, and why."""


def _step_seconds(case: Case, step: StepWork) -> tuple[float, tuple[str, ...]] | None:
    observed: dict[str, Any] = case.observed
    for name, scale in (
        ("iteration_time_ms", 1e-3),
        ("iteration_time_s", 1.0),
        ("step_time_s", 1.0),
    ):
        if isinstance(observed.get(name), (int, float)):
            return float(observed[name]) * scale, ()
    if isinstance(observed.get("tokens_per_s_per_gpu"), (int, float)) and step.gpus:
        return step.tokens / (float(observed["tokens_per_s_per_gpu"]) * step.gpus), ()
    if isinstance(observed.get("tokens_per_s"), (int, float)):
        return step.tokens / float(observed["tokens_per_s"]), ()
    if isinstance(observed.get("samples_per_s"), (int, float)):
        return step.batch / float(observed["samples_per_s"]), ()
    achieved = observed.get("achieved_tflops_per_gpu")
    if isinstance(achieved, (int, float)) and step.gpus:
        flops, note = counted_flops(case, step)
        return flops / (float(achieved) * 1e12 * step.gpus), (note,)
    return None


def counted_flops(case: Case, step: StepWork) -> tuple[float, str]:
    """FLOPs of a step as the source counts them.

    Narayanan et al. 2021 count 96 B s l h^2 (1 + s/6h + V/16lh), full recomputation included.
    That count is used where the notes state it, and for GPT-style decoders with recomputation; else
    the model FLOPs without recomputation.
    """
    inputs = case.inputs
    gpt_style = not (inputs.get("ffn") or inputs.get("kv_heads") or inputs.get("experts"))
    shapes = [inputs.get(name) for name in ("hidden", "layers", "seq_len")]
    if ("96" not in case.notes and not (gpt_style and step.recomputes)) or not all(shapes):
        return step.model_flops, "achieved FLOP/s taken as the model's, nothing computed again"
    h, layers, s = (float(value) for value in shapes if value)
    vocabulary = float(inputs.get("vocab") or 51200)
    flops = 96 * step.batch * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    return flops, "achieved FLOP/s counted with full recomputation"
