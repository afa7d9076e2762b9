"""What an experiment found, with every block that it used or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    notes: tuple[str, ...] = ()
    """What was dropped or assumed, in words: warm-up blocks, disturbed pairs."""
