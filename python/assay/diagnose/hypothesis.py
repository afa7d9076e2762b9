"""A cause: a physical mechanism with the time it explains, its evidence and its status."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a cause: a sentence, and the rows, samples or experiment behind it."""

    statement: str
    rows: tuple[int, ...] = ()
    """Rows of the event table."""
    source: str = "trace"
    """trace, telemetry, experiment or prediction."""

    def to_data(self) -> dict[str, Any]:
        """The evidence as plain data."""
        return {**asdict(self), "rows": list(self.rows)}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A mechanism and the nanoseconds per token that it explains."""

    name: str
    """The mechanism in the field's words: `host launch`, `KV cache reads`, `sampling`."""
    mechanism: str
    """One sentence: how it takes the time."""
    ns_per_token: float
    lo: float
    hi: float
    status: str
    """established by experiment, supported, or cannot be told apart from another, which it names."""
    evidence: tuple[Evidence, ...]
    fix: str
    """What would remove it, as a setting or a change."""
    part_of: tuple[str, ...] = ()
    """Terms of the waterfall that it explains."""
    within: str = ""
    """The cause whose time this one is a part of: the sum of causes leaves it out."""
    beyond_step: bool = False
    """Whether it adds to the mean time per token, but not to the step of the waterfall."""


@dataclass(frozen=True, slots=True)
class RankedHypotheses:
    """Causes, the one that explains most time first, and what could not be asked."""

    causes: tuple[Hypothesis, ...]
    degradations: tuple[str, ...] = ()
    """Mechanisms that could not be examined, and what that would need."""

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self.causes)

    def __len__(self) -> int:
        return len(self.causes)
