"""What past runs on the same fingerprint found: outcomes by change, and failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.improve.journal import journal as journals, run_folder
from assay.improve.policy.constraints import Failure
from assay.improve.policy.fingerprint import Fingerprint
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

MOST_RUNS: Final = 50
"""Past runs that are read, the latest first."""
LASTING: Final = frozenset({"crash", "OOM", "refused"})
"""Failures of the settings themselves, which would fail again in another run."""


@dataclass(frozen=True, slots=True)
class PastTrial:
    """One experiment of a past run."""

    run: str
    levers: tuple[str, ...]
    changes: Mapping[str, Setting]
    control: Mapping[str, Setting]
    """The settings that it was compared with."""
    verdict: str
    ratio: Interval | None
    failure: str
    prediction: Interval | None = None

    def is_of(self, changes: Mapping[str, Setting], settings: Mapping[str, Setting]) -> bool:
        """Whether it tried these changes from these values of the changed knobs."""
        return dict(self.changes) == dict(changes) and all(
            self.control.get(knob) == settings.get(knob) for knob in changes
        )


@dataclass(frozen=True, slots=True)
class History:
    """Trials of past runs, the latest run first."""

    trials: tuple[PastTrial, ...] = ()
    runs: int = 0
    notes: tuple[str, ...] = ()
    """Runs that could not be read whole."""

    def outcomes(
        self, changes: Mapping[str, Setting], settings: Mapping[str, Setting]
    ) -> list[Interval]:
        """Measured ratios of these changes."""
        return [
            trial.ratio
            for trial in self.trials
            if trial.ratio is not None
            and trial.verdict != "invalid"
            and trial.is_of(changes, settings)
        ]

    def failures(self) -> list[Failure]:
        """Settings that crashed, ran out of memory or were refused.

        A hang or a timeout may have been the machine's load: the lever's score remembers it.
        """
        return [
            Failure(
                trial.changes, {**trial.control, **trial.changes}, trial.failure, f"run {trial.run}"
            )
            for trial in self.trials
            if trial.failure in LASTING
        ]

    def failure_rate(self, lever: str) -> tuple[int, int]:
        """How many trials of a lever failed, and how many there were."""
        of_lever = [trial for trial in self.trials if lever in trial.levers]
        return sum(bool(trial.failure) for trial in of_lever), len(of_lever)


def read(fingerprint: Fingerprint, root: Path | None = None, leave_out: str = "") -> History:
    """The history of a fingerprint from the stored runs; `leave_out` is the run under way."""
    trials: list[PastTrial] = []
    notes: list[str] = []
    runs = 0
    for folder in run_folder.stored(root):
        if folder.id == leave_out or runs >= MOST_RUNS:
            continue
        reading = journals.read(folder.path)
        recorded = reading.last("fingerprint")
        if recorded is None or recorded.data.get("hash") != fingerprint.hash:
            continue
        runs += 1
        if reading.problems:
            notes.append(f"run {folder.id} is read as far as its journal verifies")
        trials += _trials(folder.id, reading)
    return History(tuple(trials), runs, tuple(notes))


def _trials(run: str, reading: journals.JournalReading) -> list[PastTrial]:
    """The trials of a run; those of its confirmation are no trials."""
    controls = {
        record.data.get("name"): record.data.get("control") or {}
        for record in reading.of("experiment")
    }
    trials = []
    for record in reading.of("verdict"):
        data = record.data
        candidate = data.get("candidate") or {}
        if data.get("role", "trial") != "trial" or not candidate.get("changes"):
            continue
        trials.append(
            PastTrial(
                run=run,
                levers=tuple(candidate.get("levers") or ()),
                changes=dict(candidate["changes"]),
                control=dict(controls.get(data.get("experiment"), {})),
                verdict=str(data.get("verdict") or ""),
                ratio=_figure(data.get("ratio")),
                failure=str(data.get("failure") or ""),
                prediction=_figure(candidate.get("prediction")),
            )
        )
    return trials


def _figure(data: Any) -> Interval | None:
    """A figure as the journal wrote it: three numbers by name, or in order."""
    if isinstance(data, Mapping):
        data = [data.get(name) for name in ("value", "lo", "hi")]
    if not isinstance(data, (list, tuple)) or len(data) != 3:
        return None
    if not all(
        isinstance(number, (int, float)) and math.isfinite(number) and number > 0 for number in data
    ):
        return None
    return Interval(*map(float, data))
