"""What the loop hands over for a report: everything that it shows besides the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.improve.experiments.result import ExperimentResult
from assay.improve.loop.outcome import Outcome
from assay.load.workloads.measurement import Setting


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run of the loop, ready to be reported; `write_run` adds what the files say."""

    outcome: Outcome
    better: str
    """Direction of the metric: higher or lower."""
    start: Mapping[str, Setting]
    """The settings that the run started from, read back from the engine."""
    fingerprint: Mapping[str, Any]
    """Model, hardware, engine release, workload shape."""
    experiments: tuple[ExperimentResult, ...] = ()
    """Every trial in order of time, failed ones too; joint candidates too."""
    noise: ExperimentResult | None = None
    """The A/A experiment: the starting settings against themselves."""
    confirmation: ExperimentResult | None = None
    """All kept levers together against the start, measured again."""
    left_out: Mapping[str, ExperimentResult] = field(default_factory=dict)
    """For each kept lever, the kept settings against those without it: what it is worth."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Levers that were not tried, and why."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Where it ran, as `assay.runtime.fingerprint.machine` describes it: names, not only a hash."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """Name, description, requests, arrival, SLO ... as shown at the top."""
    phases: tuple[tuple[str, float, float], ...] = ()
    """Name, start (seconds since 1970) and length in seconds of each phase."""
    budget_s: float | None = None
    threshold: float = 0.01
    """The practical threshold: a smaller gain is not kept."""
    confidence: float = 0.95
    answer_confidence: float = 0.95
    """Of the bound on wrongly changed answers."""
    launch_start: str = ""
    """The command that starts the engine as it was found; the inverse of the outcome's own."""
    devices: int = 1
    degradations: tuple[str, ...] = ()
    seed: int | None = None
