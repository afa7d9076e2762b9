"""A measured or predicted figure with its interval."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A value and the interval around it.

    >>> Figure(1.5, 1.4, 1.6).excludes(1.0)
    True
    """

    value: float
    lo: float
    hi: float

    def excludes(self, other: float) -> bool:
        """Whether the interval lies wholly on one side of a value."""
        return other < self.lo or other > self.hi
