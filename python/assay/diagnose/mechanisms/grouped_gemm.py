"""Grouped GEMM inefficiency: experts above the time to read the weights that tokens touch."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import EXPERTS
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Time of the experts' GEMMs above their floor."""
    return view.above_floor(view.with_operation(EXPERTS), "grouped GEMMs")


MECHANISM = Mechanism(
    "grouped GEMM inefficiency",
    "each chosen expert gets few rows, so its tiles are mostly padding and its weights arrive "
    "below the bandwidth of memory",
    "kernels of the experts, and the floor from the weights that the batch touches",
    "grouped GEMM kernels with small tiles, tuned for this number of tokens an expert; fp8 experts",
    find,
)
