"""Layouts of a model over GPUs: tensor ranks and pipeline stages that hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from assay.asking.case import GPUS_OF_A_NODE, Case
from assay.errors import InputError
from assay.plurals import count

FEWEST: Final = "the fewest that hold it"
"""What is said of the GPUs of a layout that was chosen by memory alone."""
ONE_INSTANCE: Final = "one instance over all of them: "
GROUPS: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8))
"""Tensor ranks and pipeline stages of an instance, in the order in which they are tried."""
_LAYOUTS_TRIED: Final = 12


def refuse_several(case: Case, gpus: int) -> None:
    """Refuse more GPUs than one instance would be spread over: what is asked for is of one."""
    if gpus <= 2 * GPUS_OF_A_NODE:
        return
    held = math.prod(fewest(case, lone=True))
    if gpus > 2 * max(GPUS_OF_A_NODE, held):
        raise InputError(
            f"{gpus:,} GPUs are several replicas of a model that {count(held, 'GPU')} of them hold",
            f"ask for one replica, such as of {max(GPUS_OF_A_NODE, held)} GPUs",
        )


def one_instance(layout: tuple[int, int]) -> str:
    """That all GPUs are one instance, in words."""
    tensor, pipeline = layout
    stages = f" and {pipeline} pipeline stages" if pipeline > 1 else ""
    return f"{ONE_INSTANCE}{count(tensor, 'tensor rank')}{stages}"


def layout_of(case: Case, gpus: int) -> tuple[int, int]:
    """Tensor ranks within a node that split the heads, and pipeline stages over the rest of the GPUs."""
    heads, depth = (round(v or 1) for v in case.values("architecture.heads", "architecture.layers"))
    for tensor in range(min(gpus, GPUS_OF_A_NODE), 0, -1):
        if gpus % tensor == 0 and heads % tensor == 0 and gpus // tensor <= depth:
            return tensor, gpus // tensor
    raise InputError(
        f"{gpus:,} GPUs: one instance of {heads} query heads and {depth} layers cannot be split over "
        "all of them",
        "ask for the GPUs of one instance: up to 8, or some nodes of 8",
    )


def widest(case: Case, gpus: int) -> Case:
    """The case on a layout of the GPUs that holds the model, or on the widest legal one where none does.

    Over all of them first: tensor ranks of a node that split the heads, then pipeline stages; then over
    fewer, whose instances are replicas.
    """
    heads, depth = (round(v or 1) for v in case.values("architecture.heads", "architecture.layers"))
    tried = []
    for used in range(gpus, 0, -1):
        for tensor in range(min(used, GPUS_OF_A_NODE), 0, -1):
            if used % tensor == 0 and heads % tensor == 0 and used // tensor <= depth:
                tried.append((tensor, used // tensor))
        if len(tried) >= _LAYOUTS_TRIED:
            break
    for layout in tried:
        if is_held(memory(laid := laid_out(case, layout))):
            whole = layout[0] * layout[1] == gpus > 1
            return replace(laid, assumed=(*laid.assumed, one_instance(layout))) if whole else laid
    return laid_out(case, tried[0] if tried else layout_of(case, gpus))


def laid_out(case: Case, layout: tuple[int, int]) -> Case:
    """The case with so many tensor ranks and pipeline stages."""
    tensor, pipeline = layout
    more: dict[str, int] = {"serving__tensor": tensor}
    if pipeline > 1:
        more["serving__pipeline"] = pipeline
    return replace(case.given(**more), layout=layout)


def memory(case: Case) -> Mapping[str, float]:
    """What decides whether a model fits, in base units."""
    names = (
        "serving.cache_memory", "serving.one_request_memory", "serving.requests_that_fit",
        "serving.concurrency", "serving.batch_limit", "architecture.heads", "serving.weight_memory",
        "gpu.memory.capacity",
    )  # fmt: skip
    values = case.values(*names)
    return {
        name: math.nan if value is None else value
        for name, value in zip(names, values, strict=True)
    }


def fewest(case: Case, lone: bool = False) -> tuple[int, int]:
    """The smallest layout that holds the model and all its requests, else the model."""
    enough = None
    for layout in GROUPS:
        sizes = memory(laid_out(case, layout))
        if not is_held(sizes) or sizes["architecture.heads"] % layout[0]:
            continue
        running = min(sizes["serving.concurrency"], sizes["serving.batch_limit"])
        if lone or running <= sizes["serving.requests_that_fit"]:
            return layout
        enough = enough or layout
    if enough is None:
        raise InputError(
            f"the model does not fit on {GROUPS[-1][0] * GROUPS[-1][1]} GPUs of this kind",
            "a smaller format of weights, or GPUs with more memory",
        )
    return enough


def is_held(sizes: Mapping[str, float]) -> bool:
    """Whether the weights and one request fit."""
    return sizes["serving.one_request_memory"] <= sizes["serving.cache_memory"]
