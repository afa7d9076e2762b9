"""The shape of a mechanism: what it reads, what it claims, and what would fix it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from assay.diagnose.mechanisms.view import View

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Claim:
    """Intervals of the waterfall that a mechanism explains."""

    intervals: Flags
    """One flag for each row of `View.intervals`."""
    statements: tuple[str, ...] = ()
    """What speaks for it, beside the rows."""
    source: str = "trace"
    within: str = ""
    """Where the time is claimed by another mechanism, too: its name."""


@dataclass(frozen=True, slots=True)
class Estimate:
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


Finding = Claim | Estimate | NotExamined | None
"""None: examined, and it takes no time; or it has no place in this model."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A way in which time is lost."""

    name: str
    """In the field's words."""
    sentence: str
    """How it takes the time."""
    reads: str
    """What it is told from."""
    fix: str
    """What would remove it, as a setting or a change."""
    find: Callable[[View], Finding]
