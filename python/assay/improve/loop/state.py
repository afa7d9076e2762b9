"""What a run of the loop knows: handed from phase to phase, and to the report at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.improve.engines.protocol import EngineDescription
from assay.improve.experiments.correctness import Reference
from assay.improve.experiments.outputs.ledger import KnownAnswers
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.journal.block_table import block_data
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.run_folder import RunFolder, configuration_hash
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


def start_seconds(description: EngineDescription) -> float:
    """How long the engine's last start took; 0 where none has been seen."""
    seconds = description.details.get("start_seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class Captured:
    """The start: what runs, and how fast."""

    baseline: Measurement | None = None
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    """Answers of the workload itself, as tokens."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a step should take, and where the difference went."""

    model: ModelSpec | None = None
    hardware: HardwareSpec | None = None
    trace: Trace | None = None
    """The recorded trace with its structure recovered."""
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whether to experiment, and with what."""

    candidates: tuple[Candidate, ...] = ()
    """Those to be tried, in order."""
    ranked: tuple[Candidate, ...] = ()
    """All candidates by rank, those too that an earlier part of the run decided."""
    known: Known | None = None
    """What they were ranked by; None in a resumed run, which has no trace at hand."""
    past: History = field(default_factory=History)
    """Trials of past runs on the same fingerprint."""
    constraints: Constraints | None = None
    """What failed trials forbid, past runs' too."""
    stop: str = ""
    """Why no experiment is made: a dry run, or an engine near its floor; empty where some are."""


@dataclass(frozen=True, slots=True)
class Control:
    """The start against itself."""

    reference: Reference | None = None
    """Its answers to the probes of the correctness gate."""
    noise: ExperimentResult | None = None
    """The A/A experiment."""


@dataclass(frozen=True, slots=True)
class KeptStack:
    """The kept levers, on which later trials build."""

    results: tuple[ExperimentResult, ...] = ()
    changes: Mapping[str, Setting] = field(default_factory=dict)
    """What differs from the start."""
    gained: Interval = UNCHANGED
    """What they gain if their ratios multiply: an estimate until they are confirmed."""
    is_raced: bool = False
    """Whether one of them is the best of several that raced: its interval does not count the luck of
    being chosen, which only the confirmation does."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An experiment with a candidate on top of the changes that were kept before it."""

    result: ExperimentResult
    before: KeptStack


@dataclass(frozen=True, slots=True)
class Soaked:
    """The kept stack measured again."""

    left_out: Mapping[str, ExperimentResult] = field(default_factory=dict)
    """The stack against the stack without each lever."""
    confirmation: ExperimentResult | None = None
    """The stack against the start."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What the guard after promotion saw."""

    windows: int = 0
    reason: str = ""
    """Why the kept settings were taken back; empty where they were not."""
    recent: tuple[float, ...] = ()
    """Logarithms of the ratio to the start of the last windows: too few of them may be bad to prove it."""
    seconds: float = 0.0
    """On top of the budget."""


@dataclass(slots=True)
class RunState:
    """A run under way: its parts, what each phase found so far, and what is to be reported.

    What a phase found is frozen, and replaced as it grows: a run may be interrupted anywhere.
    """

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
    restart_s: float = 0.0
    """Seconds until the engine serves again after a change that is not live."""
    recording: Recording | None = None
    spent_before_s: float = 0.0
    """Seconds of earlier parts of the run."""
    prepared_s: float = 0.0
    """Seconds of the budget that went by before the first phase."""

    captured: Captured = Captured()
    predicted: Predicted = Predicted()
    chosen: Chosen = field(default_factory=Chosen)
    control: Control = Control()
    stack: KeptStack = KeptStack()
    untried: int = 0
    """Candidates that the budget left no time for."""
    soaked: Soaked = Soaked()
    watched: Watched = Watched()
    interrupted: bool = False

    known_answers: dict[str, KnownAnswers] = field(default_factory=dict)
    """Answers of the workload by hash of the configuration that gave them."""
    asked: int = 0
    """Requests of the workload that experiments went through: the next one goes on from there."""

    trials: list[Trial] = field(default_factory=list)
    """In order of time."""
    names: set[str] = field(default_factory=set)
    """Names of experiments, of earlier parts of the run too."""
    plan: dict[str, Any] = field(default_factory=dict)
    """What plan.json holds."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Levers that were not tried, and why."""
    degradations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    """Title, start (seconds since 1970) and seconds of each phase."""
    phase_begun_s: float = 0.0
    """When the last one began, in seconds of the budget."""

    @property
    def results(self) -> list[ExperimentResult]:
        """Every trial's result in order of time."""
        return [trial.result for trial in self.trials]

    def degrade(self, text: str) -> None:
        """Record something that was missing or done in another way, once."""
        if text in self.degradations:
            return
        self.degradations.append(text)
        self.journal.append("degradation", text=text)

    def answers_of_now(self) -> KnownAnswers:
        """The answers known of the engine's settings of now."""
        return self.known_answers.setdefault(configuration_hash(self.engine.settings()), {})

    def went_through(self, blocks: Iterable[Block]) -> None:
        """The next experiment asks for other requests than these blocks."""
        counted = [block for block in blocks if block.arm == "control" and block.pair >= 0]
        self.asked += sum(block.requests for block in counted)

    def keep_block(self, block: Block) -> None:
        """Put a block on disk as it comes, so that a fault does not lose it."""
        self.journal.append("block", **block_data(block))

    def begin(self, phase: str) -> None:
        """A phase begins."""
        self.end_phase()
        seconds = self.budget.share(phase)
        self.journal.append("phase", name=phase, share_s=seconds)
        self.phases.append((TITLES[phase], time.time(), 0.0))
        self.phase_begun_s = self.budget.spent
        self.progress.phase(TITLES[phase], max(self.budget.left(phase), 0.0))
        if self.recording is not None:
            self.recording.phase(phase)

    def end_phase(self) -> None:
        """Note how long the last phase took."""
        if self.phases:
            title, begun, _ = self.phases[-1]
            self.phases[-1] = (title, begun, self.budget.spent - self.phase_begun_s)
