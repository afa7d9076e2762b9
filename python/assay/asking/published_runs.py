"""Published training runs of a model on an accelerator: what they reached, beside what is predicted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay import catalog
from assay.catalog import accelerators, models
from assay.errors import UnknownNameError
from assay.files import read_json

_FILE: Final = Path(catalog.__file__).parent / "cases" / "published.json"
_SHAPES: Final = {"hidden": "hidden", "layers": "layers", "ffn": "ffn", "kv_heads": "kv_heads"}  # fmt: skip
"""Fields of a case that say which model it is of, and the shapes that they are."""
_PADDED: Final = 1.03
"""How many times larger a vocabulary is that was padded to divide it."""
_NEAR: Final = 2.0
"""How many times more or fewer GPUs a run may have had."""
_FORMATS: Final = ("bf16", "fp16")
_SEQUENCE: Final = 8192


class PublishedRun(NamedTuple):
    """A run that was published with its model FLOPs utilization."""

    gpus: int
    mfu: float
    """In percent."""
    source: str
    suite: str
    """Cases that were published with it, by the name that `assay validate` has for them."""


def near(
    model: str, accelerator: str, gpus: float, sequence: float | None = None
) -> tuple[str, ...]:
    """What published runs in 16 bits reached on about as many GPUs, in words; the nearest first.

    Where none had about as many: the nearest. `sequence` is the model's context, at most 8,192 tokens. The last says
    where such runs are predicted with the layout and the software that they had.

    >>> near("llama-3.1-405b", "h100_sxm", 16384)[0]
    'published: MFU of 41 % on 16,384 GPUs (The Llama 3 Herd of Models, Table 4)'
    """
    length = sequence or min(models.find(model).context or _SEQUENCE, _SEQUENCE)
    ordered = sorted(
        _runs(model, accelerator, length), key=lambda run: abs(math.log(run.gpus / gpus))
    )
    chosen = [run for run in ordered if max(run.gpus / gpus, gpus / run.gpus) <= _NEAR]
    runs = chosen or ordered[:1]
    notes = [
        f"published: MFU of {run.mfu:.3g} % on {run.gpus:,} GPUs ({run.source})" for run in runs
    ]
    if runs:
        suites = " and ".join(
            f"assay validate --suite {suite}" for suite in dict.fromkeys(run.suite for run in runs)
        )
        notes.append(
            f"published runs had the layout and the software of their time, with which {suites} predicts them"
        )
    return tuple(notes)


@cache
def _runs(model: str, accelerator: str, sequence: float) -> tuple[PublishedRun, ...]:
    shapes = models.find(model).shapes
    return tuple(
        PublishedRun(
            int(inputs["n_gpus"]),
            float(observed["mfu_pct"]),
            f"{source['title']}, {source['where']}",
            suite,
        )
        for inputs, observed, source, suite in _cases()
        if inputs["seq_len"] == sequence
        and _is_of(inputs, shapes)
        and _is(str(inputs["gpu"]), accelerator)
    )


def _is_of(inputs: Mapping[str, Any], shapes: Mapping[str, float]) -> bool:
    """Whether what a case says of its model is so of the shapes."""
    if not {"hidden", "layers", "vocab"} <= set(inputs):
        return False
    same = all(inputs.get(name) in (None, shapes[shape]) for name, shape in _SHAPES.items())
    return same and 1 <= inputs["vocab"] / shapes["vocabulary"] <= _PADDED


def _is(name: str, accelerator: str) -> bool:
    try:
        return accelerators.find(name).name == accelerator
    except UnknownNameError:
        return False


def _cases() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]]:
    """Inputs, figures, sources and suites of runs in 16 bits that say their GPUs and their utilization."""
    for case in read_json("cases file", _FILE):
        inputs, observed = case["inputs"], case["observed"]
        if case["kind"] != "training" or "mfu_pct" not in observed:
            continue
        if inputs.get("precision") in _FORMATS and {"n_gpus", "seq_len", "gpu"} <= set(inputs):
            yield inputs, observed, case["source"], str(case["id"]).partition("-")[0]
