"""Compute-bound GEMM inefficiency: linear layers above the time of their FLOPs."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import EXPERTS, GEMMS
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """Time above the floor of linear layers that the prediction has as bound by compute."""
    gemms = view.with_operation(GEMMS) & ~view.with_operation(EXPERTS)
    return view.above_floor(gemms & view.bound_by("compute"), "compute-bound GEMMs")


MECHANISM = Mechanism(
    "compute-bound GEMM inefficiency",
    "with many rows a GEMM is bound by tensor cores, and tiles that do not fill the last wave, "
    "epilogues and the clock under load keep it below their peak",
    "kernels of linear layers whose floor is the time of their FLOPs",
    "tile shapes and stream-K for this batch, wgmma with deeper TMA pipelines, or fp8 GEMMs",
    find,
)
