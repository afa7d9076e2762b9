"""A layout that holds a model: the fewest GPUs by tensor parallelism.

A question may name a model that is too large for the GPUs of the scenario it is asked in. What such a
scenario predicts is the behavior of a server that cannot start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from assay.model.resolving.resolution import Resolution

TENSOR: Final = "serving.tensor"
FITS: Final = "serving.fits_memory"
"""Without it no request can run."""
HOLDS_ALL: Final = "serving.fits_cache"
"""Without it some requests wait."""
GROUPS: Final = (2, 4, 8, 16)
"""Sizes of a tensor-parallel group that are tried; a node has 8 GPUs, an NVL72 more."""


def is_too_small(resolution: Resolution) -> bool:
    """Whether the model and one request do not fit the GPUs."""
    return FITS in _violated(resolution)


def fitting_group(resolve: Callable[[int], Resolution], groups: Iterable[int]) -> int | None:
    """The smallest tensor-parallel group that holds the model and all requests, else the model.

    `resolve` answers the question with a group of so many GPUs. A group that breaks a condition
    which has nothing to do with memory, such as heads that do not divide, is left out.
    """
    enough = None
    for group in groups:
        broken = _violated(resolve(group))
        if FITS in broken or "serving.heads_divide" in broken:
            continue
        if HOLDS_ALL not in broken:
            return group
        enough = enough or group
    return enough


def _violated(resolution: Resolution) -> set[str]:
    return {verdict.name for verdict in resolution.violated}
