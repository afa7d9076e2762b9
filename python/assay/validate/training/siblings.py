"""Fields of a training case completed from cases of the same source or model.

Which case completes another does not depend on the order of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from assay.validate.cases import Case

_SHARED_FIELDS = (
    "interconnect", "network", "zero_stage", "activation_recompute", "position", "precision",
    "framework", "kv_heads", "ffn", "vocab", "schedule",
)  # fmt: skip
_LAYOUT_FIELDS = (
    "tp", "pp", "model_parallel", "cp", "dp", "vp", "interleave", "micro_batch", "n_gpus", "seq_len",
    "global_batch", "batch_per_dp", "zero_stage", "activation_recompute", "interconnect", "network",
)  # fmt: skip
_JOB_FIELDS = ("gpu", "n_gpus", "hidden", "layers", "heads", "tp", "pp", "dp")


def completed(case: Case, siblings: Sequence[Case]) -> Case:
    """The case with fields that another case of the same source and job states."""
    inputs = dict(case.inputs)
    url = case.source.get("url")
    same = [
        other
        for other in siblings
        if other.source.get("url") == url
        and other is not case
        and all(other.inputs.get(name) == inputs.get(name) for name in _JOB_FIELDS)
    ]
    same.sort(key=lambda other: other.id)
    reference = inputs.get("same_config_as") or inputs.get("same_model_as")
    named = [other for other in siblings if other.id == reference]
    for other in named:
        for name, value in other.inputs.items():
            inputs.setdefault(name, value)
    for name in _SHARED_FIELDS:
        stated = [o.inputs[name] for o in same if o.inputs.get(name) is not None]
        if inputs.get(name) is None and stated:
            inputs[name] = stated[0]
    return Case(case.id, case.kind, inputs, case.observed, case.source, case.notes, case.tier)


def with_layout(
    case: Case, shapes: dict[str, float], siblings: Sequence[Case], notes: list[str]
) -> Case:
    """The case with the layout that another case states for the same model and accelerator."""
    inputs = case.inputs
    if any(inputs.get(name) for name in (*_LAYOUT_FIELDS[:3], "sharding", "scheme", "parallel")):
        return case
    sides = ("hidden", "layers", "heads", "vocabulary")
    size = [shapes[f"architecture.{name}"] for name in sides]
    same = [
        other
        for other in siblings
        if other.id != case.id
        and other.inputs.get("tp")
        and other.inputs.get("gpu") == inputs.get("gpu")
        and size == [other.inputs.get(name) for name in (*sides[:3], "vocab")]
        and inputs.get("seq_len") in (None, other.inputs.get("seq_len"))
    ]
    if not same:
        return case
    other = min(same, key=lambda other: _distance(case, other))
    stated = {name: other.inputs[name] for name in _LAYOUT_FIELDS if other.inputs.get(name)}
    own = {name: value for name, value in inputs.items() if value is not None}
    notes.append(f"layout not stated: that of {other.id}")
    return replace(case, inputs={**stated, **own})


def _distance(case: Case, other: Case) -> tuple[int, int, float, str]:
    """Order of preference: titles of sources alike, more of the layout stated, fewer GPUs."""
    shared = _title_words(case) & _title_words(other)
    stated = sum(bool(other.inputs.get(name)) for name in _LAYOUT_FIELDS)
    return -len(shared), -stated, float(other.inputs.get("n_gpus") or math.inf), other.id


def _title_words(case: Case) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", str(case.source.get("title", "")).lower()))
