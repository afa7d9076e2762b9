"""A sweep over more points than a table could hold, reduced as it goes.

Points are taken in parts of one size, no matter what evaluates them, and joined in order: sums and digests
are the same to the bit in one process, in several, and on other machines.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.model.language.variables import Variable
from assay.model.optimizing.grid import PART_POINTS
from assay.model.optimizing.sweep import CHUNK, PreparedSweep, shown_values
from assay.model.resolving.resolution import ConditionVerdict

Extreme = tuple[float, int]
"""A value in base units and the number of its point."""
_ENDS: Final = ("least", "most", "least_satisfying", "most_satisfying")


@dataclass(frozen=True)
class TargetSummary:
    """A target over all points: where it is least and most, its mean, and a digest of its values."""

    defined: int
    """Points at which it has a finite value."""
    mean: float | None
    """In the display unit, over points with a value."""
    ends: Mapping[str, tuple[float, dict[str, float]] | None]
    """By `least`, `most`, and both over points that satisfy every constraint: value and point."""
    digest: str
    """SHA-256 over the values in base units, part by part."""


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep came to, in display units."""

    axes: tuple[Variable, ...]
    targets: tuple[Variable, ...]
    points: int
    undefined: int
    """Points at which a target has no finite value."""
    satisfying: int
    """Points at which every target has a value and every constraint that is judged holds."""
    violations: Mapping[str, int]
    """Points that violate a constraint, for those that some point violates."""
    of: Mapping[str, TargetSummary]
    conditions: Mapping[str, str] = field(default_factory=dict, repr=False)
    unknown: tuple[ConditionVerdict, ...] = ()
    notes: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {
            "axes": [variable.name for variable in self.axes],
            "targets": [variable.name for variable in self.targets],
            "units": {v.name: v.display.text for v in (*self.axes, *self.targets)},
            "points": self.points,
            "undefined": self.undefined,
            "satisfying": self.satisfying,
            "summary": {name: _target_data(summary) for name, summary in self.of.items()},
            "violations": {
                name: {"condition": self.conditions.get(name, ""), "points": count}
                for name, count in self.violations.items()
            },
            "unknown": [verdict.to_data() for verdict in self.unknown],
            "notes": list(self.notes),
        }


def _target_data(summary: TargetSummary) -> dict[str, Any]:
    ends = {
        name: None if end is None else {"value": end[0], "at": end[1]}
        for name, end in summary.ends.items()
    }
    return {"defined": summary.defined, "mean": summary.mean, **ends, "sha256": summary.digest}


def summary_parts(prepared: PreparedSweep) -> list[tuple[int, int]]:
    """The first point of each part, and the one after its last."""
    size = prepared.grid.size
    return [(first, min(first + PART_POINTS, size)) for first in range(0, size, PART_POINTS)]


def summarize_part(prepared: PreparedSweep, begin: int, end: int) -> dict[str, Any]:
    """What the points from `begin` to before `end` come to, as plain data."""
    targets, checks = len(prepared.targets), len(prepared.checks.checks)
    broken = np.zeros(checks, dtype=np.int64)
    # What fails whatever is chosen leaves no point that satisfies all.
    is_sound = all(verdict.status == "true" for verdict in prepared.checks.fixed)
    digests = [hashlib.sha256() for _ in range(targets)]
    sums: list[list[float]] = [[] for _ in range(targets)]
    defined_at = [0] * targets
    ends: list[dict[str, Extreme]] = [{} for _ in range(targets)]
    undefined = satisfying = 0
    for first in range(begin, end, CHUNK):
        last = min(first + CHUNK, end)
        with np.errstate(all="ignore"):
            rows = prepared.function(prepared.grid.columns(np.arange(first, last)))
        values, holds = rows[:targets], rows[targets:] > 0
        finite = np.isfinite(values)
        defined: Flags = np.all(finite, axis=0)
        sound: Flags = np.all([defined, *holds], axis=0) if is_sound else np.zeros_like(defined)
        undefined += int(np.count_nonzero(~defined))
        satisfying += int(np.count_nonzero(sound))
        broken += np.count_nonzero(~holds & defined, axis=1)
        for row in range(targets):
            kept = np.where(finite[row], values[row], np.nan)
            digests[row].update(kept.tobytes())
            count = int(np.count_nonzero(finite[row]))
            defined_at[row] += count
            sums[row].append(float(np.sum(kept, where=finite[row])))
            _widen(ends[row], ("least", "most"), kept, finite[row], first)
            _widen(ends[row], ("least_satisfying", "most_satisfying"), kept, sound, first)
    return {
        "points": end - begin,
        "undefined": undefined,
        "satisfying": satisfying,
        "broken": broken.tolist(),
        "defined": defined_at,
        "sums": [math.fsum(each) for each in sums],
        "ends": ends,
        "digests": [digest.hexdigest() for digest in digests],
    }


def _widen(
    ends: dict[str, Extreme], names: tuple[str, str], values: Floats, where: Flags, first: int
) -> None:
    """Take the least and the most of some points; of equal values the earlier point counts."""
    if not where.any():
        return
    lowest = int(np.argmin(np.where(where, values, np.inf)))
    highest = int(np.argmax(np.where(where, values, -np.inf)))
    for name, at, sign in ((names[0], lowest, 1.0), (names[1], highest, -1.0)):
        value = float(values[at])
        if name not in ends or sign * value < sign * ends[name][0]:
            ends[name] = (value, first + at)


def join_summary(prepared: PreparedSweep, parts: Iterable[Mapping[str, Any]]) -> SweepSummary:
    """The summary of all points from those of the parts, in their order."""
    count = len(prepared.targets)
    points = undefined = satisfying = 0
    broken = np.zeros(len(prepared.checks.checks), dtype=np.int64)
    defined, sums = [0] * count, [[0.0] for _ in range(count)]
    digests = [hashlib.sha256() for _ in range(count)]
    ends: list[dict[str, Extreme]] = [{} for _ in range(count)]
    for part in parts:
        points += part["points"]
        undefined += part["undefined"]
        satisfying += part["satisfying"]
        broken += np.array(part["broken"], dtype=np.int64)
        for row in range(count):
            defined[row] += part["defined"][row]
            sums[row].append(part["sums"][row])
            digests[row].update(bytes.fromhex(part["digests"][row]))
            for name, (value, at) in part["ends"][row].items():
                sign = 1.0 if name.startswith("least") else -1.0
                if name not in ends[row] or sign * value < sign * ends[row][name][0]:
                    ends[row][name] = (value, at)
    violations = {
        check.name: int(number)
        for check, number in zip(prepared.checks.checks, broken, strict=True)
        if number
    }
    always = {v.name: points - undefined for v in prepared.checks.fixed if v.status == "false"}
    return SweepSummary(
        axes=tuple(axis.variable for axis in prepared.axes),
        targets=prepared.targets,
        points=points,
        undefined=undefined,
        satisfying=satisfying,
        violations={**always, **violations},
        of={
            variable.name: TargetSummary(
                defined[row],
                _shown(variable, math.fsum(sums[row]) / defined[row]) if defined[row] else None,
                {name: _end(prepared, variable, ends[row].get(name)) for name in _ENDS},
                digests[row].hexdigest(),
            )
            for row, variable in enumerate(prepared.targets)
        },
        conditions=prepared.conditions,
        unknown=tuple(prepared.checks.unknown),
        notes=prepared.notes(),
    )


def _end(
    prepared: PreparedSweep, variable: Variable, end: Extreme | None
) -> tuple[float, dict[str, float]] | None:
    if end is None:
        return None
    value, number = end
    point = prepared.grid.columns(np.array([number]))[:, 0]
    at = {
        axis.variable.name: axis.variable.shown(float(coordinate))
        for axis, coordinate in zip(prepared.axes, point, strict=True)
    }
    return _shown(variable, value), at


def _shown(variable: Variable, value: float) -> float:
    return float(shown_values(np.array([value]), variable.display)[0])
