"""What an experiment found, with every block that it used or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.improve.experiments.confidence_sequence import INDEPENDENT, Design
from assay.improve.levers.lever import Candidate
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

Verdict = Literal["improved", "regressed", "undecided", "invalid"]

Arm = Literal["control", "treatment"]


@dataclass(frozen=True, slots=True)
class Block:
    """One measured block: a row of experiments.parquet."""

    experiment: str
    index: int
    """Order in time, from 0."""
    pair: int
    arm: Arm
    started_at: float
    seconds: float
    value: float
    """The objective's metric."""
    output_tokens: int
    requests: int
    load_state: str
    settings: Mapping[str, Setting]
    dropped: str = ""
    """Why the block does not count; empty where it does."""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """The confidence sequence after a pair: valid at every look, so stopping early is allowed."""

    pair: int
    ratio: Interval


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate: correctness, SLO, equal work, settings read back."""

    gate: str
    passed: bool
    statement: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DifferingAnswer:
    """An answer of the treatment that the control did not give to the same request."""

    request: int
    kind: str
    """near ties, as drawn (a sample), wrong, or not judged."""
    gap: float | None = None
    """Largest gap along it, in nats; of a sampled answer, the logarithm of the evidence against it."""
    token: int = -1
    """Where that gap is."""


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """Answers of the treatment beside those of the control."""

    equal: int = 0
    differing: tuple[DifferingAnswer, ...] = ()
    requests: int = 0
    """Different requests among them."""
    tie: float = 0.0
    """Gap up to which two tokens are a near tie, in nats."""
    rows: int = 0
    """Rows of one answer, where that is the output of a data set; 0 where it is a model's."""
    row: str = ""
    """What such rows are of: events."""

    @property
    def total(self) -> int:
        """All answers compared."""
        return self.equal + len(self.differing)

    @property
    def judged(self) -> int:
        """What the bound on wrongly changed ones counts: answers of a model, or rows of different data sets.

        A program gives the same outputs for the same data: to run a data set again tells nothing of others.
        """
        return self.requests * self.rows if self.rows else self.total

    @property
    def unproven(self) -> int:
        """Of those, the wrong ones, and those that nobody could judge."""
        return (self.wrong + self.not_judged) * max(self.rows, 1)

    @property
    def wrong(self) -> int:
        """Wrongly changed ones."""
        return self._count("wrong")

    @property
    def near_ties(self) -> int:
        """Those that part from the control at near ties only."""
        return self._count("near ties")

    @property
    def drawn(self) -> int:
        """Samples that the control may well have drawn."""
        return self._count("as drawn")

    @property
    def not_judged(self) -> int:
        """Those that differ, and of which no log-probability tells how."""
        return self._count("not judged")

    def _count(self, kind: str) -> int:
        return sum(answer.kind == kind for answer in self.differing)

    def after(self, earlier: ExperimentResult | None) -> ComparedAnswers:
        """With those of the part that an experiment went on from.

        How many requests both parts had is not known: no more than the larger number is claimed.
        """
        before = None if earlier is None else earlier.answers
        if before is None:
            return self
        return ComparedAnswers(
            before.equal + self.equal,
            (*before.differing, *self.differing),
            max(before.requests, self.requests),
            self.tie,
            self.rows,
            self.row,
        )

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | None) -> ComparedAnswers | None:
        """As the journal has them."""
        if not data:
            return None
        differing = tuple(DifferingAnswer(**row) for row in data["differing"])
        return cls(
            *(int(data["equal"]), differing, int(data["requests"]), float(data["tie"])),
            *(int(data.get("rows", 0)), str(data.get("row", ""))),
        )


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """A candidate, measured."""

    experiment: str
    candidate: Candidate
    verdict: Verdict
    ratio: Interval | None
    """Treatment over control, above 1 better; None where nothing was measured."""
    reason: str
    """One sentence: why this verdict."""
    blocks: tuple[Block, ...] = ()
    looks: tuple[Look, ...] = ()
    gates: tuple[GateResult, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    """crash, OOM, hang, timeout or refused; empty where the trial ran. A constraint of the search."""
    futile: bool = False
    """Stopped for futility: so far below a gain that the noise of the machine does not explain it."""
    design: Design = INDEPENDENT
    """What its interval rests on besides its pairs."""
    answers: ComparedAnswers | None = None
    """The workload's own answers, compared; None where none were."""
    notes: tuple[str, ...] = ()
    """What was dropped or assumed, in words: warm-up blocks, disturbed pairs."""
