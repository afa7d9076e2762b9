"""Element-wise kernels that move many bytes, above the time to move them."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import HEAVY, SMALL_KERNEL_NS
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Time above the floor of longer kernels with no mechanism of their own."""
    long = (view.intervals["event_ns"].fill_null(0) >= SMALL_KERNEL_NS).to_numpy()
    light = view.is_mapped & ~view.with_operation(HEAVY)
    return view.above_floor(light & long, f"kernels of {SMALL_KERNEL_NS / 1e3:.0f} us or more")


MECHANISM = Mechanism(
    "element-wise kernels",
    "norms, activations and routing read and write memory several times where one pass would do",
    "kernels of 5 us or more outside GEMMs, attention, experts, sampling and collectives",
    "fuse them, or vectorize their loads",
    find,
)
