"""KV cache reads: keys and values arrive below the bandwidth of memory."""

from __future__ import annotations

import dataclasses

from assay.diagnose.mechanisms.attention_time import share_of_reads
from assay.diagnose.mechanisms.classes import ATTENTION
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """The part of attention above its floor that grows with the KV cache."""
    claim = view.above_floor(view.with_operation(ATTENTION), "attention kernels")
    share = share_of_reads(view)
    if claim is None or not share:
        return None
    return dataclasses.replace(
        claim,
        share=share,
        statements=(
            *claim.statements,
            f"{100 * share:.0f} % of the time above it follows the bytes of the KV cache",
        ),
    )


MECHANISM = Mechanism(
    "KV cache reads",
    "attention reads keys and values in pages, below the bandwidth that memory can deliver",
    "attention kernels, their floor from the bytes of the KV cache at this context, and the share "
    "of the ceiling that the GEMMs of the step reach",
    "fewer bytes (fp8 KV cache, shorter or sliding context), or larger KV blocks",
    find,
)
