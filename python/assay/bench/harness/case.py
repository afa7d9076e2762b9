"""What a suite consists of: cases, each with its ceiling, its rivals and its check."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from assay.bench.harness.clocks import Call, Clock
from assay.runtime.hardware import Device

Size = tuple[int, ...]

_MIN_SECONDS: Final = 1e-12
"""A clock may read no time at all, and figures are divided by it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """How a measurement becomes a figure."""

    scale: float
    kind: Literal["rate", "time", "reported", "reported_cost"]
    """An amount over seconds; seconds over an amount; or a value that the call itself reports, of
    which more is better, or less where it is a cost."""
    is_timed: bool = True
    """Whether the machine's speed decides it."""

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.kind in ("rate", "reported")

    def value(self, amount: float, measured: float) -> float:
        """The figure, from the amount of work in one call and the measured seconds or value."""
        if self.kind == "rate":
            return amount / max(measured, _MIN_SECONDS) / self.scale
        if self.kind == "time":
            return max(measured, _MIN_SECONDS) / amount / self.scale
        return measured / self.scale


UNITS: Final[Mapping[str, Unit]] = {
    "GB/s": Unit(1e9, "rate"),
    "GFLOP/s": Unit(1e9, "rate"),
    "TFLOP/s": Unit(1e12, "rate"),
    "points/s": Unit(1.0, "rate"),
    "tok/s": Unit(1.0, "rate"),
    "requests/s": Unit(1.0, "rate"),
    "M pairs/s": Unit(1e6, "rate"),
    "k decisions/s": Unit(1e3, "rate"),
    "frames/s": Unit(1.0, "rate"),
    "structures/h": Unit(1.0 / 3600.0, "rate"),
    "ns/event": Unit(1e-9, "time"),
    "ns": Unit(1e-9, "time"),
    "us": Unit(1e-6, "time"),
    "ms": Unit(1e-3, "time"),
    "s": Unit(1.0, "time"),
    "RTF": Unit(1.0, "time"),
    "%": Unit(0.01, "reported"),
    "% of runs": Unit(0.01, "reported_cost"),
    "trials": Unit(1.0, "reported_cost", is_timed=False),
    "MB": Unit(1e6, "reported_cost", is_timed=False),
}

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_MULTIPLES: Final = {None: 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_TIME_OF: Final = re.compile(r"(ns|us|ms|s)/([a-z][a-z_-]*)")
_RATE_OF: Final = re.compile(r"(?:([kMG]) )?([a-z][a-z_-]*)s/(s|min|h)")


def unit_named(name: str) -> Unit:
    """A unit of the table, or one made of what a claim counts; raises `KeyError` for others.

    >>> unit_named("us/row"), unit_named("M rows/s")
    (Unit(scale=1e-06, kind='time', is_timed=True), Unit(scale=1000000.0, kind='rate', is_timed=True))
    """
    if name in UNITS:
        return UNITS[name]
    if match := _TIME_OF.fullmatch(name):
        return Unit(_SECONDS[match[1]], "time")
    if match := _RATE_OF.fullmatch(name):
        return Unit(_MULTIPLES[match[1]] / _SECONDS[match[3]], "rate")
    raise KeyError(name)


def counted_in(name: str) -> str | None:
    """What a unit counts, where its name says it: row, of us/row and of M rows/s."""
    match = _TIME_OF.fullmatch(name) or _RATE_OF.fullmatch(name)
    return match[2] if match else None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is timed: our own code, a ceiling, or a rival."""

    name: str
    call: Call
    clock: Clock
    amount: float = 1.0
    """Work of one call, in bytes, operations or whatever the unit counts."""
    began_ns: Callable[[], int] | None = None
    """When the timed part of the last call began, on the monotonic clock; None where all of it is."""


@dataclass(frozen=True, slots=True)
class Absent:
    """A rival that was not measured, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the timed code computes the right answer.

    `error` overwrites the output with NaN, makes call number i again, and returns the relative
    error against the reference `against`; it is NaN where the output was not written.
    """

    against: str
    error: Callable[[int], float]
    tolerance: float


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """A case ready to be measured: memory allocated, inputs filled."""

    own: Subject
    check: Check
    ceiling: Subject | None = None
    rivals: Sequence[Subject | Absent] = ()
    bytes: float | None = None
    """Bytes that one call must move."""
    flops: float | None = None
    """FLOPs of one call."""
    serial_steps: float = 0.0
    """The longest chain of operations of one call of which each needs the one before."""
    working_set_bytes: int | None = None
    """Size of all rotated inputs, where it decides whether they stay in the cache."""
    note: str = ""
    degradations: Callable[[], Sequence[str]] = tuple
    """Fallbacks that were taken, reported after the measurement."""
    stages: Callable[[Mapping[str, int]], Mapping[str, Mapping[str, Sequence[float]]]] = lambda _: {}
    """Seconds of each stage of the last calls, so many of each subject; empty for one stage."""


@dataclass(frozen=True, slots=True)
class Case:
    """One figure to measure; `prepare` allocates memory, so it is called just before measuring."""

    name: str
    unit: str
    prepare: Callable[[], PreparedCase]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    """Number of rounds, for cases whose rounds take long."""
    max_seconds: float | None = None
    """After this long fewer rounds suffice; by default the plan's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a run; an empty one means the suite's default."""

    device: Device
    quick: bool = False
    sizes: tuple[Size, ...] = ()
    dtypes: tuple[str, ...] = ()
    model: str | None = None
    rivals: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    """Parts of the names of the cases to measure; none means all."""
    data: Path | None = None
    """Staged inputs, of a workload that reads them from a file."""
    data_units: int | None = None
    """Units of work in that file."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a workload other than those that users get."""
    rival_python: Path | None = None
    """The interpreter of another environment, in which rivals run."""

    def of_cases(self, names: Sequence[str], settings: Mapping[str, Any]) -> Settings:
        """The same for the cases that these parts of names ask for, with settings of a workload."""
        return replace(self, cases=tuple(names), settings=settings)


@dataclass(frozen=True, slots=True)
class Suite:
    """A family of cases that are measured and printed together."""

    name: str
    cases: Callable[[Settings], Sequence[Case]]
    dtypes: tuple[str, ...] = ()
    """Element types and block formats that `--dtypes` can choose from."""
    axes: tuple[int, ...] = ()
    """How many extents a size of `--sizes` may have; empty if the suite has no sizes."""
    size_meaning: str = ""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Kinds of devices that the suite runs on."""
    rivals: tuple[str, ...] = ()
    """Programs that `--rival` can choose from."""
    has_rivals_elsewhere: bool = False
    """Whether rivals may run in another Python environment, which `--rival-python` names."""
    has_model: bool = False
    """Whether `--model` names what it measures."""
    finish: Callable[[Any, Device], str] | None = None
    """Called with the result; returns a line to print."""
    seeding: Literal["inputs", "rounds", "none"] = "none"
    """Whether a seed changes the inputs, every round is of another seed, or inputs are fixed."""
    is_timed: bool = True
    """False where figures do not depend on the machine: replays of recordings."""
    packages: Mapping[str, Mapping[str, str | None]] | None = None
    """What each rival is made of, with the version unless Python knows it; None: not said."""
    summary: Callable[[Sequence[Any]], str] = lambda _: ""
    """A line about the figures together, kept with the result; empty for none."""
    sources: Callable[[], Mapping[str, str]] = dict
    """Files of the user that were measured, with their hashes."""
