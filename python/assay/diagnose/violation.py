"""What an invariant says of a trace: held, violated, or not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from assay.diagnose.residuals import Residuals

VERDICTS: Final = ("violated", "not measured")
"""What a finding says; an invariant that holds has none."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding of an invariant. `not measured` is a finding too: it is never passed over."""

    invariant: str
    verdict: str
    """One of `VERDICTS`."""
    where: str
    """The operation, layer, step or counter that it is about."""
    observed: float | None
    lo: float | None
    hi: float | None
    unit: str
    rows: tuple[int, ...] = ()
    """Rows of the event table, the worst first."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Invariant:
    """Something that must hold of every healthy trace: a name, a sentence and a check."""

    name: str
    statement: str
    check: Callable[[Residuals], Sequence[Violation]] = field(repr=False)
