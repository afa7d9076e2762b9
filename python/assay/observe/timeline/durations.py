"""Times for people: in the unit that suits their size."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def duration(ns: float) -> str:
    """A time with its unit, to four digits.

    >>> duration(4_841_234), duration(950), duration(2.5e9), duration(0)
    ('4.841 ms', '950 ns', '2.5 s', '0 ns')
    """
    for scale, unit in _UNITS:
        # What rounds to the next unit is written in it.
        if abs(ns) >= scale * 0.99995:
            return f"{_digits(ns / scale)} {unit}"
    return f"{_digits(ns)} ns"


def _digits(value: float) -> str:
    text = f"{value:.4g}"
    return f"{value:,.0f}" if "e" in text else text


def tick_step(length: float, most: int) -> float:
    """The round step (1, 2 or 5 times a power of ten) that gives at most so many ticks.

    >>> tick_step(97, 5), tick_step(4.8, 6)
    (20.0, 1.0)
    """
    from math import floor, log10

    rough = length / max(most, 1)
    power = 10.0 ** floor(log10(rough))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough * (1 - 1e-9))
