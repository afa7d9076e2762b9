"""What failed trials forbid: settings that would fail again, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.improve.levers.lever import Riskier
from assay.load.workloads.measurement import Setting

MONOTONE: Final = frozenset({"OOM"})
"""Failures that a riskier value repeats. Others forbid the values that failed, and no more."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that did not run."""

    changes: Mapping[str, Setting]
    """What differed from settings that ran."""
    settings: Mapping[str, Setting]
    """All settings of the trial, as far as they are known."""
    kind: str
    """crash, OOM, hang, timeout or refused."""
    source: str = "this run"


@dataclass(slots=True)
class Constraints:
    """Failures, and which settings they forbid.

    >>> limits = Constraints({"max_batch": ("larger", (16, 64, 128))})
    >>> limits.add(Failure({"max_batch": 64}, {"max_batch": 64}, "OOM"))
    >>> limits.forbids({"max_batch": 128})
    'OOM at max_batch=64 (this run)'
    >>> limits.forbids({"max_batch": 16}) is None
    True
    """

    riskier: Mapping[str, tuple[Riskier, Sequence[Setting]]] = field(default_factory=dict)
    """Knobs with a direction of risk, and their values in the lever's order."""
    failures: list[Failure] = field(default_factory=list)

    def add(self, failure: Failure) -> None:
        """Take a failed trial into account."""
        self.failures.append(failure)

    def forbids(self, settings: Mapping[str, Setting]) -> str | None:
        """Why settings would fail as an earlier trial did; None where nothing says so."""
        for failure in self.failures:
            if self._repeats(failure, settings):
                changed = ", ".join(f"{name}={value}" for name, value in failure.changes.items())
                return f"{failure.kind} at {changed} ({failure.source})"
        return None

    def _repeats(self, failure: Failure, settings: Mapping[str, Setting]) -> bool:
        """Whether settings hold all that failed; knobs that are milder now may let it run."""
        if not failure.changes:
            return False
        monotone = failure.kind in MONOTONE
        for name, value in failure.settings.items():
            if name not in settings or settings[name] == value:
                continue
            if monotone and name in self.riskier:
                if not self._at_least(name, settings[name], value):
                    return False
            elif name in failure.changes:
                return False
        return all(name in settings for name in failure.changes)

    def _at_least(self, name: str, value: Setting, other: Setting) -> bool:
        direction, order = self.riskier[name]
        if direction in ("larger", "smaller"):
            if not isinstance(value, (int, float)) or not isinstance(other, (int, float)):
                return False
            return value >= other if direction == "larger" else value <= other
        if value not in order or other not in order:
            return False
        places = order.index(value), order.index(other)
        return places[0] >= places[1] if direction == "later" else places[0] <= places[1]
