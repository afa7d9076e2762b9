"""Published training cases as inputs of the graph."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.catalog import accelerators
from assay.catalog.entries import CatalogEntry
from assay.validate.cases import Case
from assay.validate.training.layouts import layouts_of
from assay.validate.training.shapes import (
    NotPredictable,
    accelerator_of,
    launch_year,
    rates_of,
    shapes_of,
)
from assay.validate.training.siblings import completed, with_layout
from assay.validate.training.software import PARALLEL_FOLDING, Software, software_of

DEFAULT_BATCH_TOKENS = 4e6
BATCH_TOKENS_PER_GPU = 1e3
FEWEST_GPUS = 256
LONGEST_RUN_DAYS = 75
PASSES_PER_STAGE = 4
# A run of digits is tried from its first digit only, or long ones take quadratic time.
_ADAPTERS = re.compile(r"(?<!\d)(\d{1,9})\s*x\s*(?:[A-Za-z-]+\s+)?(\d{1,9})\s*Gb/s")
_ADAPTER_RATE = re.compile(r"(?<!\d)(\d{1,9})\s*Gb/s")
_CLAUSE = re.compile("[,;]")


@dataclass(frozen=True)
class Job:
    """A case as inputs of the graph in base units, and the parallel layouts it leaves open."""

    case: Case
    system: str
    bits: float
    values: dict[str, float]
    layouts: tuple[dict[str, float], ...]
    counts_gpus: bool
    """Whether the number of GPUs is unknown, so that only GPU time is compared."""
    total_tokens: float | None = None
    notes: tuple[str, ...] = ()
    software: Software | None = field(default=None, repr=False)


def read_job(case: Case, siblings: Sequence[Case]) -> Job:
    """A case as a job; raises `NotPredictable` with the reason if an input is missing."""
    case = completed(case, siblings)
    inputs = case.inputs
    entry = accelerator_of(case)
    notes: list[str] = []
    shapes = shapes_of(case, notes)
    case = with_layout(case, shapes, siblings, notes)
    inputs = case.inputs
    has_block_formats = entry.given.get("gpu.rate_fp4", 0.0) > 0
    software = software_of(case, siblings, launch_year(entry), has_block_formats=has_block_formats)
    notes += software.notes
    values = {
        **entry.given,
        **rates_of(entry.name),
        **shapes,
        **software.values,
        **_network(inputs, notes),
    }
    sequence = _sequence(inputs, notes)
    bits = compute_bits(str(inputs.get("precision", "")))
    gpus = inputs.get("n_gpus") or inputs.get("n_chips") or _product(inputs, "dp")
    counts = [int(gpus)] if gpus else _counts(case, entry, bits, notes)
    batch = _batch(inputs, sequence, counts[0], notes)
    values |= {
        "architecture.sequence": sequence,
        "training.batch": batch,
        "training.compute_bits": bits,
        "parallelism.context": float(inputs.get("cp") or 1),
        "parallelism.expert": float(inputs.get("ep") or 1),
        **_board(inputs, notes),
    }
    if inputs.get("etp") or software.date > PARALLEL_FOLDING:
        values["parallelism.expert_tensor"] = float(inputs.get("etp") or 1)
    layouts = tuple(layouts_of(case, software, values, counts, notes))
    if not layouts:
        raise NotPredictable("no layout divides the job as stated")
    return Job(
        case, entry.name, bits, values, layouts, counts_gpus=not gpus,
        total_tokens=_total_tokens(inputs), notes=tuple(notes), software=software,
    )  # fmt: skip


def compute_bits(precision: str) -> float:
    """Bits of the operands of layer GEMMs, by the name of a recipe such as MXFP8 or NVFP4.

    Recipes keep attention, embedding and head in 16 bits.
    """
    words = precision.lower()
    if "fp4" in words:
        return 4.0
    return 8.0 if "fp8" in words or "float8" in words else 16.0


def _board(inputs: dict[str, Any], notes: list[str]) -> dict[str, float]:
    """Memory, bandwidth and power limit that a case states for its accelerators."""
    stated = {}
    for name, variable, unit in (
        ("mem_GB", "gpu.memory.capacity", 2.0**30),
        ("hbm_GBps", "gpu.memory.bandwidth", 1e9),
        ("power_limit_W", "gpu.power.limit", 1.0),
    ):
        if isinstance(inputs.get(name), (int, float)):
            stated[variable] = float(inputs[name]) * unit
    if "gpu.power.limit" in stated:
        notes.append(f"power limit of {inputs['power_limit_W']:g} W as stated")
    return stated


def _product(inputs: dict[str, Any], needed: str) -> int | None:
    """Product of the stated parallel degrees, if the needed one is among them."""
    if needed and not inputs.get(needed):
        return None
    names = [name for name in ("tp", "pp", "cp", needed) if name]
    return math.prod(int(inputs.get(name) or 1) for name in names)


def _counts(case: Case, entry: CatalogEntry, bits: float, notes: list[str]) -> list[int]:
    """GPU counts (powers of two) that finish the run in time at an MFU of 0.4."""
    inputs, least = case.inputs, FEWEST_GPUS
    tokens, size = _total_tokens(inputs), inputs.get("params_B") or inputs.get("params_active_B")
    if tokens and size:
        base = entry.given | accelerators.low_precision_rates(entry)
        peak = base["gpu.multiprocessors"] * base["gpu.flops_per_cycle"] * base["gpu.clock"]
        seconds = (
            6 * size * 1e9 * tokens / (0.4 * peak * (base["gpu.rate_8bit"] if bits < 16 else 1))
        )
        needed = seconds / (LONGEST_RUN_DAYS * 86400)
        least = max(least, 2 ** math.ceil(math.log2(needed)))
    notes.append(f"number of GPUs not stated: the best of {least} to {4 * least}")
    return [least, 2 * least, 4 * least]


def _network(inputs: dict[str, Any], notes: list[str]) -> dict[str, float]:
    text = f"{inputs.get('interconnect') or ''}; {inputs.get('network') or ''}"
    per_gpu: float | None = None
    if match := _ADAPTERS.search(text):
        per_gpu = int(match[1]) * int(match[2]) / 8
    elif match := _node_rate(text):
        per_gpu = int(match[1]) / 8
    elif match := _ADAPTER_RATE.search(text):
        per_gpu = float(match[1])
    if per_gpu is None:
        notes.append("network not stated: the accelerator's usual one")
        return {}
    return {"interconnect.nic.count": 1.0, "interconnect.nic.line_rate": per_gpu * 1e9 / 8}


def _node_rate(text: str) -> re.Match[str] | None:
    """The rate that a clause states per node, as in "3200 Gb/s InfiniBand per node"."""
    for clause in _CLAUSE.split(text):
        match = _ADAPTER_RATE.search(clause)
        if match and "per node" in clause[match.end() :]:
            return match
    return None


def _sequence(inputs: dict[str, Any], notes: list[str]) -> float:
    if inputs.get("seq_len"):
        return float(inputs["seq_len"])
    notes.append("sequence not stated: 8192 tokens")
    return 8192.0


def _batch(inputs: dict[str, Any], sequence: float, gpus: float, notes: list[str]) -> float:
    if inputs.get("global_batch"):
        return float(inputs["global_batch"])
    if inputs.get("batch_per_dp") and inputs.get("dp"):
        return float(inputs["batch_per_dp"] * inputs["dp"])
    if inputs.get("grad_accum") and inputs.get("micro_batch"):
        replicas = gpus / (_product(inputs, "") or 1)
        return float(inputs["grad_accum"] * inputs["micro_batch"] * replicas)
    tokens = inputs.get("global_batch_tokens_M") or inputs.get("tokens_per_batch_M")
    if tokens:
        return max(1.0, round(float(tokens) * 1e6 / sequence))
    notes.append(
        "batch not stated: 4 million tokens, a thousand a GPU, or four passes for every stage"
    )
    tensor, pipeline = (float(inputs.get(name) or 1) for name in ("tp", "pp"))
    filling = PASSES_PER_STAGE * gpus / tensor if pipeline > 1 else 1.0
    tokens = max(DEFAULT_BATCH_TOKENS, BATCH_TOKENS_PER_GPU * gpus)
    return max(1.0, round(tokens / sequence), round(filling))


def _total_tokens(inputs: dict[str, Any]) -> float | None:
    for name, scale in (
        ("tokens", 1.0), ("tokens_T", 1e12), ("tokens_B", 1e9), ("total_tokens_B", 1e9),
    ):  # fmt: skip
        if inputs.get(name):
            return float(inputs[name]) * scale
    return None
