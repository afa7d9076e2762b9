"""What a run that was cut short had done: where `assay run --resume` goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import InputError
from assay.improve.experiments.result import Block
from assay.improve.journal import journal as journals
from assay.improve.journal.block_table import block_of
from assay.improve.journal.journal import JournalReading
from assay.improve.journal.run_folder import RunFolder
from assay.improve.journal.undo import JournaledChange, outstanding
from assay.load.workloads.measurement import Setting


@dataclass(frozen=True, slots=True)
class ResumeState:
    """A run as its journal has it."""

    run: RunFolder
    started: Mapping[str, Any]
    """The data of the record that began the run."""
    phase: str | None
    """The phase that was under way; None before the first."""
    elapsed_s: float
    """Seconds of the budget that were spent, by the monotonic clocks of the processes."""
    start: Mapping[str, Setting] | None
    """The configuration before the first change."""
    safe: Mapping[str, Setting] | None
    """The configuration recorded as safe: the start, or what was confirmed."""
    applied: tuple[JournaledChange, ...]
    """Changes that are in force or may be; `recover` takes them back before a run goes on."""
    kept: tuple[Mapping[str, Any], ...]
    """Data of the records of kept changes, in order; a fault undid them in the engine."""
    verdicts: tuple[Mapping[str, Any], ...]
    """Data of the records of ended experiments, in order."""
    blocks: tuple[Block, ...]
    """Every block that was measured, also those of an experiment that did not end."""
    degradations: tuple[str, ...]
    is_finished: bool

    def blocks_of(self, experiment: str) -> tuple[Block, ...]:
        """The blocks of an experiment."""
        return tuple(block for block in self.blocks if block.experiment == experiment)


def resume_state(run: RunFolder) -> ResumeState:
    """Read how far a run came; raises where its journal does not verify or it never began."""
    reading = journals.read(run.path)
    if reading.problems:
        raise journals.JournalError(
            f"run {run.id} cannot be resumed: its journal is damaged: {reading.status()}",
            "it was edited after it was written; restore the run folder from a copy",
        )
    started = reading.last("started")
    if started is None:
        raise InputError(f"run {run.id} cannot be resumed: it never began", "start a new run")
    phase = reading.last("phase")
    safe = [record.data["settings"] for record in reading.of("safe")]
    return ResumeState(
        run,
        started.data,
        None if phase is None else phase.data.get("name"),
        elapsed(reading),
        safe[0] if safe else None,
        safe[-1] if safe else None,
        tuple(outstanding(reading.records)),
        tuple(record.data for record in reading.of("kept")),
        tuple(record.data for record in reading.of("verdict")),
        tuple(block_of(record.data) for record in reading.of("block")),
        tuple(str(record.data.get("text")) for record in reading.of("degradation")),
        reading.is_finished,
    )


def elapsed(reading: JournalReading) -> float:
    """Seconds that a run took: the latest `elapsed_s` of a record, else those of its blocks."""
    for record in reversed(reading.records):
        if isinstance(record.data.get("elapsed_s"), int | float):
            return float(record.data["elapsed_s"])
    return sum(float(record.data["seconds"]) for record in reading.of("block"))
