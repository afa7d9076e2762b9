"""Colors of operations, kernels and phases: `palette.json`, which the page reads too."""

from __future__ import annotations

import json
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

from assay.observe.operations import parts


@cache
def palette() -> dict[str, Any]:
    """The palette's data: families of operations, phases, and colors of names."""
    text = files("assay.observe.timeline").joinpath("palette.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@cache
def _operations() -> dict[str, tuple[str, int]]:
    """The family of each operation, and its place there."""
    return {
        operation: (family, place)
        for family, entry in palette()["families"].items()
        for place, operation in enumerate(entry["operations"])
    }


def family(label: str) -> str:
    """The family of an operation or kind; of a fused one, its first part that is no norm.

    >>> family("input_norm+qkv_proj"), family("input_norm"), family("something")
    ('projection', 'norm', 'none')
    """
    return _main_part(label)[0]


def _main_part(label: str) -> tuple[str, int]:
    hues = [_operations().get(part, ("none", 0)) for part in parts(label)]
    return next((hue for hue in hues if hue[0] not in ("norm", "none")), hues[0])


def label_color(label: str, by: str, theme: str, rank: int | None = None) -> str:
    """The color of a label as #rrggbb, in the theme light or dark.

    The kernels with the most time differ in color: `rank` counts them from 0. Others have the color
    of a checksum of their name.
    """
    if by == "kernel":
        colors = palette()["names"][theme]
        if rank is None or rank >= len(colors):
            rank = zlib.crc32(label.encode())
        return str(colors[rank % len(colors)])
    if by == "phase":
        phases = palette()["phases"]
        return str(phases.get(label, phases["no phase"])[theme])
    name, place = _main_part(label)
    shades = palette()["families"][name][theme]
    return str(shades[place % len(shades)])
