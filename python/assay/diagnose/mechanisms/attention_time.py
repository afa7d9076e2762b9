"""The time of attention above its floor: what follows the bytes of the KV cache, and what does not."""

from __future__ import annotations

from typing import Final

from assay.diagnose.mechanisms.classes import ATTENTION, GEMMS
from assay.diagnose.mechanisms.view import MechanismView

FIXED_NS: Final = 10_000
"""What one attention kernel takes at most without a context: 10 us at batch 64 on an H200, less at
smaller batches."""


def share_of_reads(view: MechanismView) -> float:
    """The part of attention's time above its floor that grows with the bytes it reads.

    Bytes arrive no faster than those of the step's own GEMMs that stream weights: at their share of
    the ceiling. What attention takes beyond that does not depend on the context: it is launch,
    prologue, split scheduling and combine, `FIXED_NS` a kernel at most. Where compute bounds the
    GEMMs, all of it follows the bytes if they are most of its time, and none else.
    """
    attention = view.with_operation(ATTENTION)
    floor = view.in_step(attention & view.of_terms("floor"))
    above = view.in_step(attention & view.of_terms("kernel_inefficiency"))
    if not above:
        return 1.0
    streaming = view.with_operation(GEMMS) & ~view.bound_by("compute")
    reading = view.read_efficiency(streaming)
    if reading is None:
        return 1.0 if floor >= above else 0.0
    kernels = view.intervals.filter(attention & view.in_shown_step)["row"].n_unique()
    least = 1.0 - FIXED_NS * kernels / above
    return min(max(floor * (1.0 / reading - 1.0) / above, least), 1.0)
