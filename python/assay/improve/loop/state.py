"""What a run of the loop knows: handed from phase to phase, and to the report at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.improve.engines.protocol import EngineDescription
from assay.improve.experiments.correctness import Reference
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.journal.block_table import block_data
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.run_folder import RunFolder
from assay.improve.levers.lever import Candidate
from assay.improve.loop.budget import TITLES, Budget
from assay.improve.loop.options import RunOptions
from assay.improve.loop.progress import Progress
from assay.improve.loop.record import RunRecord
from assay.improve.loop.recording import Recording
from assay.improve.policy.constraints import Constraints
from assay.improve.policy.history import History
from assay.improve.policy.known import Known, Sample
from assay.intervals import Interval
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Workload

if TYPE_CHECKING:
    from assay.diagnose.diagnosis import Diagnosis
    from assay.observe.trace import Trace
    from assay.planner.specs import HardwareSpec, ModelSpec


WriteReport = Callable[[Path, RunRecord, Journal], object]
UNCHANGED: Final = Interval(1.0, 1.0, 1.0)


@dataclass(slots=True)
class RunState:
    """A run under way."""

    engine: JournaledEngine
    """Its changes are journaled before they are made."""
    workload: Workload
    options: RunOptions
    budget: Budget
    folder: RunFolder
    journal: Journal
    progress: Progress
    description: EngineDescription
    start: Mapping[str, Setting]
    """The settings at the start, read back from the engine."""
    write_report: WriteReport
    """Writes what the run came to; it hashes all files of the run, which are complete by then."""
    model: str | None = None
    """Where the planner finds the model's shapes: a file, a folder or a name."""
    degradations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    """Title, start (seconds since 1970) and seconds of each phase."""
    baseline: Measurement | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    trace: Trace | None = None
    """The recorded trace with its structure recovered."""
    model_spec: ModelSpec | None = None
    hardware: HardwareSpec | None = None
    samples: tuple[Sample, ...] = ()
    """Answers of the workload itself, as tokens."""
    constraints: Constraints | None = None
    """What failed trials forbid, past runs' too."""
    known: Known | None = None
    """What the candidates were ranked by; None in a resumed run, which has no trace at hand."""
    past: History = field(default_factory=History)
    """Trials of past runs on the same fingerprint."""
    plan: dict[str, Any] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    reference: Reference | None = None
    """The start's answers to the probes of the correctness gate."""
    noise: ExperimentResult | None = None
    results: list[ExperimentResult] = field(default_factory=list)
    """Every trial in order of time."""
    history: list[tuple[ExperimentResult, dict[str, Setting], Interval]] = field(
        default_factory=list
    )
    """The same with the changes in force before each, and what those had gained."""
    names: set[str] = field(default_factory=set)
    """Names of experiments, of earlier parts of the run too."""
    ranked: list[Candidate] = field(default_factory=list)
    """All candidates by rank; `candidates` are those to be tried."""
    kept: list[ExperimentResult] = field(default_factory=list)
    changes: dict[str, Setting] = field(default_factory=dict)
    """What differs from the start in the stack of kept levers."""
    gained: Interval = UNCHANGED
    """What the kept levers gain if their ratios multiply: an estimate until they are confirmed."""
    confirmation: ExperimentResult | None = None
    left_out: dict[str, ExperimentResult] = field(default_factory=dict)
    spent_before_s: float = 0.0
    """Seconds of earlier parts of the run."""
    restart_s: float = 0.0
    """Seconds until the engine serves again after a change that is not live."""
    recording: Recording | None = None
    diagnosed_only: bool = False
    """Whether no experiment is made: a dry run, or an engine near its floor."""
    untried: int = 0
    """Candidates that the budget left no time for."""
    stop: str = ""
    """Why no experiment is made, or why they ended early; empty where they did not."""
    interrupted: bool = False

    def degrade(self, text: str) -> None:
        """Record something that was missing or done in another way, once."""
        if text in self.degradations:
            return
        self.degradations.append(text)
        self.journal.append("degradation", text=text)

    def keep_block(self, block: Block) -> None:
        """Put a block on disk as it comes, so that a fault does not lose it."""
        self.journal.append("block", **block_data(block))

    def begin(self, phase: str) -> None:
        """A phase begins."""
        self.end_phase()
        seconds = self.budget.share(phase)
        self.journal.append("phase", name=phase, share_s=seconds)
        self.phases.append((TITLES[phase], time.time(), 0.0))
        self.progress.phase(TITLES[phase], max(self.budget.left(phase), 0.0))
        if self.recording is not None:
            self.recording.phase(phase)

    def end_phase(self) -> None:
        """Note how long the last phase took."""
        if self.phases:
            title, begun, _ = self.phases[-1]
            self.phases[-1] = (title, begun, time.time() - begun)
