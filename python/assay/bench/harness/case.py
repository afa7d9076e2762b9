"""What a suite is made of: cases, each with its ceiling, its rivals and its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from assay.bench.harness.clocks import Call, Clock
from assay.runtime.hardware import Device

Size = tuple[int, ...]

_SHORTEST: Final = 1e-12
"""Seconds that anything takes at least: a clock may tell none, and figures are divided by it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """How a measurement becomes a figure."""

    scale: float
    kind: Literal["rate", "time", "told", "need"]
    """An amount over seconds; seconds over an amount; or what the call itself told, of which more
    is better or, where it is something needed, less."""

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.kind in ("rate", "told")

    def value(self, amount: float, measured: float) -> float:
        """The figure, from what one call does and what was measured of it."""
        if self.kind == "rate":
            return amount / max(measured, _SHORTEST) / self.scale
        if self.kind == "time":
            return max(measured, _SHORTEST) / amount / self.scale
        return measured / self.scale


UNITS: Final[Mapping[str, Unit]] = {
    "GB/s": Unit(1e9, "rate"),
    "GFLOP/s": Unit(1e9, "rate"),
    "TFLOP/s": Unit(1e12, "rate"),
    "points/s": Unit(1.0, "rate"),
    "tok/s": Unit(1.0, "rate"),
    "M pairs/s": Unit(1e6, "rate"),
    "k decisions/s": Unit(1e3, "rate"),
    "ns": Unit(1e-9, "time"),
    "us": Unit(1e-6, "time"),
    "ms": Unit(1e-3, "time"),
    "s": Unit(1.0, "time"),
    "%": Unit(0.01, "told"),
    "MB": Unit(1e6, "need"),
}


@dataclass(frozen=True, slots=True)
class Contestant:
    """Something that is timed: our own work, a ceiling, or a rival."""

    name: str
    call: Call
    clock: Clock
    amount: float = 1.0
    """What one call does, in bytes, operations or whatever the unit counts."""


@dataclass(frozen=True, slots=True)
class Absent:
    """A rival that could not take part, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the work that is timed gives the right answer.

    `error` spoils the output, does piece of work number i again, and returns how far the result
    is from that of `against`; it is NaN where the output was not written.
    """

    against: str
    error: Callable[[int], float]
    tolerance: float


@dataclass(frozen=True, slots=True)
class Trial:
    """A case made ready: memory taken, inputs filled."""

    own: Contestant
    check: Check
    ceiling: Contestant | None = None
    rivals: Sequence[Contestant | Absent] = ()
    bytes: float | None = None
    """Bytes that one call must move."""
    flops: float | None = None
    """Operations that one call does."""
    working_set_bytes: int | None = None
    """Bytes that the rotated inputs go through, where that matters."""
    note: str = ""
    degradations: Callable[[], Sequence[str]] = tuple
    """What was done less well than asked for, told when everything was measured."""


@dataclass(frozen=True, slots=True)
class Case:
    """One figure to be measured; `prepare` takes memory only when its turn has come."""

    name: str
    unit: str
    prepare: Callable[[], Trial]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    """The most rounds, where one takes long."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for; nothing given means the suite's own choice."""

    device: Device
    quick: bool = False
    sizes: tuple[Size, ...] = ()
    dtypes: tuple[str, ...] = ()
    model: str | None = None
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """A family of cases that are measured and printed together."""

    name: str
    about: str
    cases: Callable[[Settings], Sequence[Case]]
    dtypes: tuple[str, ...] = ()
    """Element types and block formats that `--dtypes` can choose from."""
    axes: tuple[int, ...] = ()
    """How many numbers a size of `--sizes` may have; none means that there are no sizes."""
    size_meaning: str = ""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Kinds of devices that it can be measured on."""
    rivals: tuple[str, ...] = ()
    """Programs that `--rival` can choose from; such a suite takes a `--model` too."""
    finish: Callable[[Any, Device], str] | None = None
    """What is done with the result besides printing it; says so in one line."""
