"""The masks of many outputs at once: the library's threads compute them without Python's lock."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from assay.engine.requests.grammar import MAX_MASK_SECONDS, GrammarMatcher

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_THREADS: Final = 8
TIMED_STEPS: Final = 64
"""Steps whose masks are computed one by one, each timed, after a step whose masks took too long together."""


class GrammarMasks:
    """Fills the rows of one step after the other."""

    def __init__(self) -> None:
        self._timed_steps = 0

    def fill(
        self, outputs: Sequence[tuple[GrammarMatcher, int]], masks: npt.NDArray[np.int32]
    ) -> None:
        """Write the mask of the next token of each output to its row."""
        words = masks.shape[1]
        together = [output for output in outputs if output[0].fills(words)]
        alone = [output for output in outputs if not output[0].fills(words)]
        if len(together) == 1 or self._timed_steps:
            self._timed_steps = max(self._timed_steps - 1, 0)
            together, alone = [], [*alone, *together]
        if together:
            self._fill_together(together, masks)
        for matcher, row in alone:
            matcher.fill_masks(masks[row : row + 1], ())

    def _fill_together(
        self, outputs: Sequence[tuple[GrammarMatcher, int]], masks: npt.NDArray[np.int32]
    ) -> None:
        pairs = [(matcher.in_library, row) for matcher, row in outputs]
        start = time.perf_counter()
        _executor().unsafe_compute_mask_ptr(
            pairs, masks.ctypes.data, masks.strides[0], masks.shape[0]
        )
        if time.perf_counter() - start > MAX_MASK_SECONDS:
            self._timed_steps = TIMED_STEPS
        for matcher, _ in outputs:
            matcher.check()


@cache
def _executor() -> Any:
    """The library's threads, of all engines of this process."""
    from llguidance import LLExecutor

    return LLExecutor(num_threads=min(MAX_THREADS, os.cpu_count() or 1))
