"""What a mechanism can say of a trace."""

from __future__ import annotations

from dataclasses import dataclass

from assay.array_types import Flags


@dataclass(frozen=True, slots=True)
class MechanismClaim:
    """Intervals of the waterfall that a mechanism explains."""

    intervals: Flags
    """One flag for each row of `MechanismView.intervals`."""
    statements: tuple[str, ...] = ()
    """What speaks for it, beside the rows."""
    source: str = "trace"
    within: str = ""
    """Where the time is claimed by another mechanism, too: its name."""
    share: float = 1.0
    """The part of each interval that it explains; another mechanism may explain the rest."""


@dataclass(frozen=True, slots=True)
class MechanismEstimate:
    """Time per token that no interval shows by itself: a difference between steps."""

    ns_per_token: float
    lo: float
    hi: float
    statements: tuple[str, ...]
    source: str = "trace"
    rows: tuple[int, ...] = ()
    within: str = ""
    """The mechanism that claims this time, too: both explain it."""
    beyond_step: bool = False
    part_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotExamined:
    """What a mechanism would need to be asked at all."""

    needs: str


@dataclass(frozen=True, slots=True)
class Refuted:
    """A difference between steps that an attempt to refute it brought down."""

    statement: str


Finding = MechanismClaim | MechanismEstimate | NotExamined | Refuted | None
"""None: examined, and it takes no time; or it has no place in this model."""
