"""What a run of the loop came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assay.answers import Answer, data_of, plain_data
from assay.improve.experiments.result import ExperimentResult
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import DataSetShape

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
    unconfirmed: tuple[ExperimentResult, ...] = ()
    """Improved by themselves; the confirmation did not prove them together."""
    data_set: DataSetShape | None = None
    """What a request is, where it is no prompt."""
    target: float | None = None
    target_met: bool | None = None
    settings: Mapping[str, Setting] | None = None
    """The final configuration, read back from the engine."""
    launch_command: str = ""
    report: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The keys that scripts read."""

        def names(results: tuple[ExperimentResult, ...]) -> list[dict[str, Any]]:
            return [
                {
                    "lever": plain_data(result.candidate.levers),
                    "changes": plain_data(result.candidate.changes),
                    **data_of(result, "ratio reason"),
                }
                for result in results
            ]

        return {
            "run": str(self.run),
            **data_of(self, "verdict metric baseline final ratio target target_met"),
            "kept": names(self.kept),
            "undecided": names(self.undecided),
            "rejected": names(self.rejected),
            "unconfirmed": names(self.unconfirmed),
            "data_set": plain_data(self.data_set),
            **data_of(self, "settings launch_command"),
            "report": None if self.report is None else str(self.report),
            "notes": plain_data(self.notes),
        }
