"""What a training run needs of each GPU at the least, where no layout of it fits."""

from __future__ import annotations

import math
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.case import Case
from assay.asking.cases import accelerator_of, gpus_of, model_of, training_case
from assay.asking.reading import Reading
from assay.errors import InfeasibleError

RANK: Final = 16
"""Rank of adapters, as `assay estimate --method lora` takes it."""
_TENSORS: Final = (1, 2, 4, 8)
_NEEDED: Final = "parallelism.memory.total"


def leanest(reading: Reading) -> Case:
    """The run in the layout of the least memory: all states divided, all activations computed again."""
    gpus = gpus_of(reading) or 1
    case = training_case(reading.with_values({"gpus": gpus, "nodes": None}))
    if reading.get("tuning") == "lora":
        case = case.given(parallelism__adapter_rank=RANK)
    case = case.given(parallelism__zero_stage=3, parallelism__recompute=2)
    heads = round(case.value("architecture.heads") or 1)
    layouts = [
        case.given(parallelism__tensor=tensor, training__batch=gpus // tensor)
        for tensor in _TENSORS
        if gpus % tensor == 0 and heads % tensor == 0
    ]
    return min(layouts, key=lambda layout: layout.value(_NEEDED) or math.inf)


def misfit(reading: Reading, error: InfeasibleError) -> InfeasibleError:
    """The refusal with the memory that is needed and that there is; the same where memory is not why."""
    case = leanest(reading)
    needed, size, sequence = case.values(_NEEDED, "gpu.memory.capacity", "architecture.sequence")
    if not needed or not size or needed <= size:
        return error
    machine = f"{gpus_of(reading) or 1:,} x {accelerator_of(reading, 'training')}"
    return InfeasibleError(
        f"{model_of(reading, 'training')} does not fit on {machine}: a run of sequences of "
        f"{sequence:,.0f} tokens needs {rounded(needed / 1e9)} GB of each GPU at least, which has "
        f"{rounded(size / 1e9)} GB",
        "take more GPUs, or GPUs with more memory",
    )
