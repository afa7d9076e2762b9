"""Published training runs of a model on an accelerator: what they reached, beside what is predicted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay import catalog
from assay.catalog import accelerators, models
from assay.errors import UnknownNameError
from assay.files import read_json

_FILE: Final = Path(catalog.__file__).parent / "cases" / "published.json"
_SHAPES: Final = {"hidden": "hidden", "layers": "layers", "vocab": "vocabulary", "kv_heads": "kv_heads"}  # fmt: skip
"""Fields of a case that say which model it is of, and the shapes that they are."""
_NEAR: Final = 2.0
"""How many times more or fewer GPUs a run may have had."""
_BF16: Final = "bf16"
_SEQUENCE: Final = 8192


class PublishedRun(NamedTuple):
    """A run that was published with its model FLOPs utilization."""

    gpus: int
    mfu: float
    """In percent."""
    source: str


def near(model: str, accelerator: str, gpus: float, sequence: float = _SEQUENCE) -> tuple[str, ...]:
    """What published runs in 16 bits reached on about as many GPUs, in words; the nearest first.

    >>> near("llama-3.1-405b", "h100_sxm", 16384)[0]
    'published: MFU of 41 % on 16,384 GPUs (The Llama 3 Herd of Models, Table 4)'
    """
    ordered = sorted(
        _runs(model, accelerator, sequence), key=lambda run: abs(math.log(run.gpus / gpus))
    )
    return tuple(
        f"published: MFU of {run.mfu:.3g} % on {run.gpus:,} GPUs ({run.source})"
        for run in ordered
        if max(run.gpus / gpus, gpus / run.gpus) <= _NEAR
    )


@cache
def _runs(model: str, accelerator: str, sequence: float) -> tuple[PublishedRun, ...]:
    shapes = models.find(model).shapes
    return tuple(
        PublishedRun(
            int(inputs["n_gpus"]),
            float(observed["mfu_pct"]),
            f"{source['title']}, {source['where']}",
        )
        for inputs, observed, source in _cases()
        if inputs["seq_len"] == sequence
        and all(inputs.get(name) == shapes[shape] for name, shape in _SHAPES.items())
        and _is(str(inputs["gpu"]), accelerator)
    )


def _is(name: str, accelerator: str) -> bool:
    try:
        return accelerators.find(name).name == accelerator
    except UnknownNameError:
        return False


def _cases() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Inputs, figures and sources of runs in 16 bits that say their GPUs and their utilization."""
    for case in read_json("cases file", _FILE):
        inputs, observed = case["inputs"], case["observed"]
        if case["kind"] != "training" or "mfu_pct" not in observed:
            continue
        if inputs.get("precision") == _BF16 and {"n_gpus", "seq_len", "gpu"} <= set(inputs):
            yield inputs, observed, case["source"]
