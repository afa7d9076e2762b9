"""KV cache reads: attention above the time to read keys and values once."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import ATTENTION
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import View


def find(view: View) -> Finding:
    """Time of attention above its floor."""
    return view.above_floor(view.with_operation(ATTENTION), "attention kernels")


MECHANISM = Mechanism(
    "KV cache reads",
    "attention reads keys and values in pages, split over few CTAs, and combines the parts in "
    "another kernel",
    "attention kernels, and the floor from the bytes of the KV cache at this context",
    "fewer bytes (fp8 KV cache), more splits at small batch (Flash-Decoding), or a backend with a "
    "fused combine",
    find,
)
