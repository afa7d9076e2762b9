"""Attention kernel latency: what attention takes whatever the context is."""

from __future__ import annotations

import dataclasses

from assay.diagnose.mechanisms.attention_time import share_of_reads
from assay.diagnose.mechanisms.classes import ATTENTION
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def find(view: MechanismView) -> Finding:
    """The part of attention above its floor that does not grow with the KV cache."""
    claim = view.above_floor(view.with_operation(ATTENTION), "attention kernels")
    share = 1.0 - share_of_reads(view)
    if claim is None or share <= 0.0:
        return None
    return dataclasses.replace(claim, share=share)


MECHANISM = Mechanism(
    "attention kernel latency",
    "launch, prologue, split scheduling and combine of attention take the same time at any context",
    "attention kernels beyond the time to read the KV cache",
    "fewer kernels for attention: a fused combine, no scheduler kernel, another number of splits, "
    "RoPE and cache write in the same kernel",
    find,
)
