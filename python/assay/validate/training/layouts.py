"""Parallel layouts that a training case states or leaves open."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from assay.validate.cases import Case
from assay.validate.training.software import Software

LAYOUT = (
    "training.gpus",
    "parallelism.tensor",
    "parallelism.pipeline",
    "parallelism.interleave",
    "parallelism.micro_batch",
    "parallelism.zero_stage",
    "parallelism.recompute",
    "parallelism.sequence_parallel",
)
"""Variables of a layout; a case may leave any of them open."""

_TENSOR_WAYS = re.compile(r"(?<!\d)(\d{1,9})-way (?:model|tensor)")


def layouts_of(
    case: Case, software: Software, values: dict[str, float], counts: Sequence[int],
    notes: list[str],
) -> list[dict[str, float]]:  # fmt: skip
    """Every layout that the case leaves open; indivisible batches are split unevenly."""
    inputs = case.inputs
    splits = _splits(inputs, software)
    if splits == [(1, 1)] and values["training.batch"] < min(counts):
        splits = None
    stages, recomputes = [software.zero_stage], [software.recompute or 0.0]
    if splits is None:
        notes.append("layout not stated: the best that fits in memory")
        splits = [(tensor, 1) for tensor in (1, 2, 4, 8)] + [(8, p) for p in (2, 4, 8, 16)]
        stages = [1.0, 3.0] if software.zero_stage == 1 else stages
        recomputes = [0.0, 1.0, 2.0] if software.recompute is None else recomputes
    elif software.recompute is None:
        notes.append("recomputation not stated: none")
    sizes = _micro_batches(inputs, values, software, notes)
    parts = inputs.get("vp") or inputs.get("interleave")
    batch, context = values["training.batch"], values["parallelism.context"]
    candidates, exact = [], []
    for gpus, (tensor, pipeline), size, stage, recompute in itertools.product(
        counts, splits, sizes, stages, recomputes
    ):
        each = size * gpus / (tensor * pipeline * context)
        if each < size or (len(sizes) > 1 and each > batch) or (pipeline > 1 and stage > 1):
            continue
        for interleave in _interleaves(parts, software, pipeline, values["architecture.layers"]):
            splits_tokens = float(software.sequence_parallel and tensor > 1)
            layout = (gpus, tensor, pipeline, interleave, size, stage, recompute, splits_tokens)
            candidates.append(dict(zip(LAYOUT, map(float, layout), strict=True)))
            exact.append(batch % each == 0)
    if inputs.get("global_batch") and any(exact):
        return [layout for layout, is_exact in zip(candidates, exact, strict=True) if is_exact]
    return candidates


def _micro_batches(
    inputs: dict[str, Any], values: dict[str, float], software: Software, notes: list[str]
) -> list[float]:
    """Sequences of a micro-batch: as stated, as many as the engine's default makes, or any."""
    if inputs.get("micro_batch"):
        return [float(inputs["micro_batch"])]
    stages, replicas = inputs.get("pp"), inputs.get("dp")
    if software.passes_equal_stages and stages and replicas:
        size = values["training.batch"] / (float(replicas) * float(stages))
        notes.append("micro-batch not stated: as many passes as stages, the engine's default")
        return [max(1.0, size)]
    notes.append("micro-batch not stated: the best")
    return [1.0, 2.0, 4.0, 8.0, 16.0]


def _splits(inputs: dict[str, Any], software: Software) -> list[tuple[int, int]] | None:
    tensor, pipeline = inputs.get("tp"), inputs.get("pp")
    if not tensor and (ways := _TENSOR_WAYS.search(str(inputs.get("parallel", "")).lower())):
        tensor = int(ways[1])
    if tensor or pipeline:
        return [(int(tensor or 1), int(pipeline or 1))]
    if model := inputs.get("model_parallel"):
        if inputs.get("scheme") and software.zero_stage > 0:
            return [(1, 1)]
        tensor = min(8, int(model))
        return [(tensor, int(model) // tensor)]
    if inputs.get("sharding") or software.zero_stage > 1:
        return [(1, 1)]
    return None


def _interleaves(parts: Any, software: Software, pipeline: int, layers: float) -> Iterator[float]:
    if pipeline == 1 or (parts is None and not software.interleaves):
        yield 1.0
    elif parts is not None:
        yield float(parts)
    elif software.passes_equal_stages:
        yield 2.0  # torchtitan's interleaved schedules have two stages a rank
    else:
        longest = math.ceil(layers / pipeline)
        yield from (
            float(split)
            for split in (1, 2, 3, 4, 8)
            if math.ceil(layers / (pipeline * split)) * split <= longest
        )
