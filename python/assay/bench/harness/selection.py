"""Parses the choices of the command line; raises `InputError` for what a suite does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.bench.harness.case import Case, Size, Suite
from assay.errors import InputError, unknown_name

_MULTIPLES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NUMBER: Final = re.compile(r"([0-9]{1,12})([kmg]?)(?:i?b)?", re.IGNORECASE)
MOST_EXTENT: Final = 1 << 36
"""Of a size; a data set has no more units of work, either."""


def sizes(suite: Suite, text: str | None) -> tuple[Size, ...]:
    """Sizes such as `64k,1m` or `2048x4096`: K, M and G are 1024 to the power of 1, 2 and 3."""
    if text is None:
        return ()
    if not suite.axes:
        raise InputError(f"the suite {suite.name} has no sizes to choose", "leave out --sizes")
    return tuple(dict.fromkeys(_size(suite, word.strip()) for word in text.split(",")))


def _size(suite: Suite, word: str) -> Size:
    numbers = []
    for part in word.lower().split("x"):
        match = _NUMBER.fullmatch(part)
        numbers.append(int(match[1]) * _MULTIPLES[match[2]] if match else 0)
    if len(numbers) not in suite.axes or not all(0 < number <= MOST_EXTENT for number in numbers):
        raise InputError(
            f"the suite {suite.name} takes sizes as {suite.size_meaning}, got {word!r}",
            "separate several with commas; K, M and G multiply by 1024",
        )
    return tuple(numbers)


def dtypes(suite: Suite, text: str | None) -> tuple[str, ...]:
    """Names of element types and block formats of the suite."""
    if text is None:
        return ()
    if not suite.dtypes:
        raise InputError(f"the suite {suite.name} has no dtypes to choose", "leave out --dtypes")
    names = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))
    for name in names:
        if name not in suite.dtypes:
            raise unknown_name(f"dtype of the suite {suite.name}", name, suite.dtypes)
    return names


def model(suite: Suite, name: str | None) -> str | None:
    """The model of a suite that takes one."""
    if name is not None and not suite.has_model:
        raise InputError(f"the suite {suite.name} has no model to choose", "leave out --model")
    return name


def rivals(suite: Suite, names: Sequence[str]) -> tuple[str, ...]:
    """Programs to compare with, out of those that the suite knows."""
    if names and not suite.rivals:
        raise InputError(f"the suite {suite.name} has no rivals to choose", "leave out --rival")
    for name in names:
        if name not in suite.rivals:
            raise unknown_name(f"rival of the suite {suite.name}", name, suite.rivals)
    return tuple(names)


def rival_python(suite: Suite, python: Path | None) -> Path | None:
    """The interpreter of rivals, for a suite whose rivals may run in another one."""
    if python is not None and not suite.has_rivals_elsewhere:
        raise InputError(
            f"--rival-python: the suite {suite.name} has no rivals that run in another environment",
            "install them where assay is installed",
        )
    return python


def cases(offered: Sequence[Case], parts: Sequence[str]) -> list[Case]:
    """The cases whose name contains one of these parts; all where none is given."""
    names = [case.name for case in offered]
    for part in parts:
        if not any(part in name for name in names):
            raise unknown_name("case", part, names)
    return [case for case in offered if not parts or any(part in case.name for part in parts)]
