"""What a run of the loop came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assay.answers import Answer
from assay.improve.experiments.result import ExperimentResult
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

RunVerdict = Literal[
    "improved", "nothing to gain", "undecided", "diagnosed only", "rolled back", "engine lost"
]


@dataclass(frozen=True)
class Outcome(Answer):
    """The verdict of a run with its evidence; `assay run --json` ends with it."""

    run: Path
    """The run folder."""
    verdict: RunVerdict
    metric: str
    baseline: Interval | None
    final: Interval | None
    ratio: Interval | None
    """Final over baseline, above 1 better; measured again with the whole stack of kept levers."""
    kept: tuple[ExperimentResult, ...] = ()
    undecided: tuple[ExperimentResult, ...] = ()
    rejected: tuple[ExperimentResult, ...] = ()
    target: float | None = None
    target_met: bool | None = None
    settings: Mapping[str, Setting] | None = None
    """The final configuration, read back from the engine."""
    launch_command: str = ""
    report: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The keys that scripts read."""

        def figure(interval: Interval | None) -> dict[str, float] | None:
            return None if interval is None else interval._asdict()

        def names(results: tuple[ExperimentResult, ...]) -> list[dict[str, Any]]:
            return [
                {
                    "lever": list(result.candidate.levers),
                    "changes": dict(result.candidate.changes),
                    "ratio": figure(result.ratio),
                    "reason": result.reason,
                }
                for result in results
            ]

        return {
            "run": str(self.run),
            "verdict": self.verdict,
            "metric": self.metric,
            "baseline": figure(self.baseline),
            "final": figure(self.final),
            "ratio": figure(self.ratio),
            "target": self.target,
            "target_met": self.target_met,
            "kept": names(self.kept),
            "undecided": names(self.undecided),
            "rejected": names(self.rejected),
            "settings": None if self.settings is None else dict(self.settings),
            "launch_command": self.launch_command,
            "report": None if self.report is None else str(self.report),
            "notes": list(self.notes),
        }
