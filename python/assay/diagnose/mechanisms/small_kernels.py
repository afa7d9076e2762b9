"""Small kernels: work that takes less time than a kernel needs to begin and end."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import HEAVY, SMALL_KERNEL_NS
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Time above the floor of short kernels with no mechanism of their own."""
    short = (view.intervals["event_ns"].fill_null(0) < SMALL_KERNEL_NS).to_numpy()
    light = view.is_mapped & ~view.with_operation(HEAVY)
    return view.above_floor(light & short, f"kernels below {SMALL_KERNEL_NS / 1e3:.0f} us")


MECHANISM = Mechanism(
    "small kernels",
    "norms, RoPE, cache writes and activations move so few bytes that starting and draining a "
    "kernel is most of its time",
    "kernels shorter than 5 us outside GEMMs, attention, experts, sampling and collectives",
    "fuse them into their neighbors: norm and RoPE into the projections, activation into the GEMM",
    find,
)
