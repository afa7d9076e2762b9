"""What a training case observed, as figures that the graph computes.

Achieved FLOP/s become the time of a step by the count that the case's notes state; shares of peak
(MFU) are never used, because their conventions differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from assay.validate.cases import Case


@dataclass(frozen=True)
class Figure:
    """One observed figure: `kind` says what of the graph it is compared with."""

    quantity: str
    kind: str
    unit: str
    observed: float
    tokens: float | None = None
    notes: tuple[str, ...] = ()


_HOURS = ("gpu_hours", "gpu_hours_pretrain")
_MEMORY = {
    "param_plus_optimizer_GiB": "states",
    "activations_tp_only_GiB": "activations, whole",
    "activations_seqpar_selective_GiB": "activations, selective",
}
_DAYS = re.compile(r"training_days_(\d+(?:\.\d+)?)([BT])_tokens")


@dataclass(frozen=True)
class Step:
    """What turns rates into times: a step's sequences, tokens, GPUs and operations."""

    batch: float
    tokens: float
    gpus: float | None
    model_flops: float
    recomputes: bool


def figures_of(case: Case, step: Step, total_tokens: float | None) -> list[Figure]:
    """The figures of a case.

    A rate that is just the run's tokens over its GPU-hours is the same figure stated twice.
    """
    observed = case.observed
    found: list[Figure] = []
    gpus = step.gpus
    timed = _step_seconds(case, step)
    hours = observed.get("gpu_hours")
    rate = observed.get("tokens_per_s_per_gpu")
    is_repeated = bool(
        hours and rate and total_tokens and abs(total_tokens / (hours * 3600 * rate) - 1) < 0.02
    )
    if timed is not None and not is_repeated:
        seconds, notes = timed
        found.append(Figure("step_time", "step", "s", seconds, notes=notes))
    for name in _HOURS:
        if isinstance(observed.get(name), (int, float)):
            found.append(Figure("gpu_hours", "hours", "GPU*h", float(observed[name])))
            break
    if isinstance(observed.get("days"), (int, float)) and gpus:
        found.append(Figure("gpu_hours", "hours", "GPU*h", float(observed["days"]) * 24 * gpus))
    for name, value in observed.items():
        if (days := _DAYS.fullmatch(name)) and gpus:
            run = float(days[1]) * (1e9 if days[2] == "B" else 1e12)
            hours = float(value) * 24 * gpus
            found.append(Figure("ideal_gpu_hours", "ideal hours", "GPU*h", hours, run))
    for name, part in _MEMORY.items():
        if isinstance(observed.get(name), (int, float)):
            found.append(Figure(name.removesuffix("_GiB"), part, "GiB/GPU", float(observed[name])))
    if isinstance(observed.get("total_train_flop"), (int, float)):
        found.append(
            Figure("total_train_flop", "flops", "FLOP", float(observed["total_train_flop"]))
        )
    return found


def _step_seconds(case: Case, step: Step) -> tuple[float, tuple[str, ...]] | None:
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


def counted_flops(case: Case, step: Step) -> tuple[float, str]:
    """FLOPs of a step as the source counts them.

    Narayanan et al. 2021 count 96 B s l h^2 (1 + s/6h + V/16lh), full recomputation included.
    That count is taken where the notes state it, and for plain decoders whose layers are computed
    again; else the model's own FLOPs, without recomputation.
    """
    inputs = case.inputs
    plain = not (inputs.get("ffn") or inputs.get("kv_heads") or inputs.get("experts"))
    shapes = [inputs.get(name) for name in ("hidden", "layers", "seq_len")]
    if ("96" not in case.notes and not (plain and step.recomputes)) or not all(shapes):
        return step.model_flops, "achieved FLOP/s taken as the model's, nothing computed again"
    h, layers, s = (float(value) for value in shapes if value)
    vocabulary = float(inputs.get("vocab") or 51200)
    flops = 96 * step.batch * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    return flops, "achieved FLOP/s counted with full recomputation"
