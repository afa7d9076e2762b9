"""How devices are named: cpu, sim, cuda:0."""

from __future__ import annotations

from typing import Final, Literal

from assay.errors import UnknownNameError

NAMES: Final = ("cpu", "sim")
"""The devices of every machine."""


def kind_and_ordinal(name: str) -> tuple[Literal["cpu", "sim", "cuda"], int]:
    """The kind and ordinal of a device name."""
    if name == "cpu":
        return "cpu", 0
    if name == "sim":
        return "sim", 0
    kind, colon, number = name.partition(":")
    if kind == "cuda" and (not colon or number.isdecimal()):
        return "cuda", int(number or 0)
    raise UnknownNameError(
        f'unknown device "{name}"', f"one of: {', '.join(NAMES)}, auto, cuda:0, cuda:1, ..."
    )
