"""A value with the interval around it: measured, predicted or estimated."""

from __future__ import annotations

from typing import Any, NamedTuple


class Interval(NamedTuple):
    """A value and the bounds of its interval; who makes one says what it covers, and how often."""

    value: float
    lo: float
    hi: float

    def scaled(self, factor: float) -> Interval:
        """The same in another unit, or of something in proportion; the factor is positive.

        >>> Interval(2.0, 1.0, 4.0).scaled(10.0)
        Interval(value=20.0, lo=10.0, hi=40.0)
        """
        return Interval(self.value * factor, self.lo * factor, self.hi * factor)

    def to_json(self, label: str = "value") -> dict[str, Any]:
        """An object; predictions label their value `expected`."""
        return {label: self.value, "lo": self.lo, "hi": self.hi}


def certain(value: float) -> Interval:
    """A value that is exact, or whose error nobody knows."""
    return Interval(value, value, value)
