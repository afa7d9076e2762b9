"""Sizes and shapes as text."""

from __future__ import annotations

from collections.abc import Iterable


def bytes_text(number: int) -> str:
    """Bytes in the largest unit that leaves a whole number.

    >>> bytes_text(32768), bytes_text(1 << 30), bytes_text(1000)
    ('32 KiB', '1 GiB', '1000 B')
    """
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 1 << power and number % (1 << power) == 0:
            return f"{number >> power} {name}"
    return f"{number} B"


def shape_text(shape: Iterable[int]) -> str:
    """Extents with a cross between them.

    >>> shape_text((2, 3))
    '2x3'
    """
    return "x".join(str(extent) for extent in shape)
