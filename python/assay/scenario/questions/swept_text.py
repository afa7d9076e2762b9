"""Sweeps in a line, and their rows under names with units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.model.language.figures import figure_range
from assay.model.language.variables import Variable
from assay.plurals import count


def swept_headline(
    axes: Sequence[str], targets: Sequence[Variable], rows: Sequence[Mapping[str, Any]]
) -> str:
    """How many points of which axes there are, and from where to where each target goes.

    Rows have values in display units, and None where a target has no value.
    """
    said = []
    for target in targets:
        shown = [row[target.name] for row in rows]
        finite = [number for number in shown if number is not None and math.isfinite(number)]
        ends = sorted({min(finite), max(finite)}) if finite else []
        text = _range(target, ends)
        lacking = len(rows) - len(finite)
        gap = f" ({count(lacking, 'point')} without a value)" if finite and lacking else ""
        said.append(f"{target.name} {text}{gap}")
    return f"{count(len(rows), 'point')} of {', '.join(axes)}: {'; '.join(said)}"


def with_units(rows: Iterable[Mapping[str, Any]], units: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows with the unit of each column behind its name; one of no dimension has none.

    >>> with_units([{"gpu.power": 400.0, "constraints": "true"}], {"gpu.power": "W/GPU"})
    [{'gpu.power (W/GPU)': 400.0, 'constraints': 'true'}]
    """
    names = {name: f"{name} ({unit})" for name, unit in units.items() if unit not in ("", "1")}
    return [{names.get(name, name): value for name, value in row.items()} for row in rows]


def _range(target: Variable, ends: Sequence[float]) -> str:
    if not ends:
        return "has no value"
    coherent = [target.display.to_coherent(number) for number in ends]
    if len(coherent) == 1:
        return f"is {target.figure(coherent[0]).text}"
    return f"goes from {figure_range(coherent[0], coherent[1], target.display)}"
