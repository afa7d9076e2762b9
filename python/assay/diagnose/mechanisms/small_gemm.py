"""Small-batch GEMM inefficiency: linear layers above the time to read their weights."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import EXPERTS, GEMMS
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Time of linear layers above their floor, those that are bound by compute left out."""
    gemms = view.with_operation(GEMMS) & ~view.with_operation(EXPERTS)
    return view.above_floor(gemms & ~view.bound_by("compute"), "GEMMs")


MECHANISM = Mechanism(
    "small-batch GEMM inefficiency",
    "with few rows a GEMM is a stream of weights, and tiles, split-K and tails keep it below the "
    "bandwidth that memory can deliver",
    "kernels of linear layers, and the floor of each from its bytes and FLOPs",
    "GEMV or small-M kernels tuned for this batch, a larger batch for the same weights, or fewer "
    "bytes: fp8 or 4-bit weights",
    find,
)
