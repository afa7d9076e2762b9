"""Answers about LoRA adapters of a model: their parameters, and the bytes of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount
from assay.asking.case import Case
from assay.asking.cases import assumptions, model_of
from assay.asking.commands import TRAINING
from assay.asking.outcome import Outcome, of_entry
from assay.asking.reading import Reading
from assay.errors import InputError

_BYTES: Final = {"bf16": 2, "f16": 2, "f32": 4, "fp8": 1}
_SIZED: Final = re.compile(r"\b(?:size|big|large|memory|bytes?|[kmg]i?b|disk|vram|megabytes?)\b")


def adapter(reading: Reading) -> Outcome:
    """Parameters of an adapter of a rank on all linear layers, or its bytes."""
    rank = int(reading.get("adapter_rank"))
    if rank < 1:
        raise InputError(f"an adapter of rank {rank}: expected at least 1", "say the rank")
    case = Case(TRAINING, (f"models/{model_of(reading)}",)).given(parallelism__adapter_rank=rank)
    outcome = of_entry(case, "parallelism.adapter_parameters")
    parameters = outcome.result.value or 0.0
    said = [line for line in assumptions(reading, "training") if not line.startswith("accelerator")]
    said.append(
        "on all linear layers of attention and of dense feed-forward; routed experts have none"
    )
    if _SIZED.search(reading.rest) is None and "format" not in reading.slots:
        text = f"{parameters:,.0f} parameters of an adapter of rank {rank}"
        return replace(outcome, text=text, assumed=tuple(said))
    name = reading.get("format", "bf16")
    if name not in _BYTES:
        raise InputError(f"an adapter in {name}", "adapters have 16 or 32 bits: bf16, f16 or f32")
    size = parameters * _BYTES[name]
    if "format" not in reading.slots:
        said.append("numbers of 16 bits")
    text = f"{amount(size, 'byte')}: {parameters:,.0f} parameters of {_BYTES[name]} bytes"
    return replace(outcome, text=text, value=size, unit="byte", assumed=tuple(said))
