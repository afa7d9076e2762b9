"""Where a call of a case loses time: its operations say what they compute and move, and no more."""

from __future__ import annotations

from typing import Final

from assay.array_types import Flags
from assay.diagnose.cases import SERIAL_STEPS
from assay.diagnose.mechanisms.classes import SMALL_KERNEL_NS
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import IDLE, MechanismView

LONGEST_STEP_NS: Final = 1_000
"""Latency of one dependent step at most: beyond it a step has work of its own to be slow at."""


def _find_between(view: MechanismView) -> Finding:
    """Time in which no operation runs."""
    idle = view.of_terms(*IDLE)
    if not idle.any():
        return None
    gaps = int((idle & view.in_shown_step).sum())
    return MechanismClaim(idle, (f"{gaps:,} gaps between operations", *view.host_sections(idle)))


BETWEEN_OPERATIONS = Mechanism(
    "host code between operations",
    "no operation runs while the program prepares the next one",
    "when each operation was submitted, and when the one before it had ended",
    "fewer, larger operations, or what is done between them as an operation; on a GPU a CUDA graph",
    _find_between,
)


def _find_dependent(view: MechanismView) -> Finding:
    """Time above the floor of a case that is a chain of steps."""
    steps = float(view.graph.batch.get(SERIAL_STEPS) or 0.0)
    claim = view.above_floor(view.is_mapped, "operations") if steps else None
    if claim is None:
        return None
    above = view.in_step(claim.intervals)
    if above > LONGEST_STEP_NS * steps:
        # A chain of a few large operations: what each takes is its work and not its latency.
        return None
    chain = (
        f"{steps:,.0f} steps of a call need the one before them: {above / steps:.2f} ns each, if all of "
        "the time above the floor is theirs"
    )
    return MechanismClaim(claim.intervals, (*claim.statements, chain))


DEPENDENT_STEPS = Mechanism(
    "dependent steps",
    "each step needs the result of the one before it, so latency counts and not bandwidth",
    "the longest chain of the case, and the time of its operations above their floor",
    "fewer accesses a step, data that stay in a nearer cache, or independent chains beside each other",
    _find_dependent,
)


def _find_arithmetic(view: MechanismView) -> Finding:
    return view.above_floor(view.bound_by("compute") & ~_short(view), "compute-bound operations")


ARITHMETIC = Mechanism(
    "arithmetic below its peak",
    "operations that are bound by arithmetic keep the units below the best rate measured here",
    "operations whose floor is the time of their FLOPs",
    "larger tiles, a layout that needs no packing, a format with a higher peak, or fewer FLOPs",
    _find_arithmetic,
)


def _find_moving(view: MechanismView) -> Finding:
    return view.above_floor(view.bound_by("memory") & ~_short(view), "memory-bound operations")


MOVING = Mechanism(
    "bytes below their bandwidth",
    "operations that are bound by memory read and write it below the best rate measured here",
    "operations whose floor is the time of their bytes",
    "contiguous accesses, more threads or loads in flight, or fuse them into their neighbors",
    _find_moving,
)


def _find_short(view: MechanismView) -> Finding:
    return view.above_floor(view.is_mapped & _short(view), "operations below 5 us")


SHORT_OPERATIONS = Mechanism(
    "short operations",
    "an operation of few bytes takes as long as starting it",
    "operations shorter than 5 us",
    "fuse them into their neighbors",
    _find_short,
)


def _short(view: MechanismView) -> Flags:
    is_short: Flags = (view.intervals["event_ns"].fill_null(0) < SMALL_KERNEL_NS).to_numpy()
    return is_short
