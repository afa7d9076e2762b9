"""Fields of a training case completed from cases of the same source or model."""

from __future__ import annotations

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
    same = [
        other
        for other in siblings
        if other is not case
        and other.source.get("url") == case.source.get("url")
        and all(other.inputs.get(name) == inputs.get(name) for name in _JOB_FIELDS)
    ]
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
    for other in siblings:
        theirs = other.inputs
        is_same = theirs.get("gpu") == inputs.get("gpu") and size == [
            theirs.get(name) for name in (*sides[:3], "vocab")
        ]
        same_length = inputs.get("seq_len") in (None, theirs.get("seq_len"))
        if other.id != case.id and is_same and same_length and theirs.get("tp"):
            stated = {name: theirs[name] for name in _LAYOUT_FIELDS if theirs.get(name)}
            own = {name: value for name, value in inputs.items() if value is not None}
            notes.append(f"layout not stated: that of {other.id}")
            return replace(case, inputs={**stated, **own})
    return case
