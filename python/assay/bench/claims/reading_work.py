"""Reads the tables of a claim that brings its work along: `[work]`, `[reference]`, `[[rivals]]`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.bench.claims.claim import BEST_RIVAL, ClaimData, Implementation, OwnWork, Rivals
from assay.bench.claims.tables import table
from assay.bench.harness.case import UNITS, counted_in, unit_named
from assay.errors import InputError

INPUT, OUTPUT, SEED = "{input}", "{output}", "{seed}"
"""Words of a command, or parts of them: the data as a file, where outputs are expected, the seed."""
TIMES: Final = ("ns", "us", "ms", "s")
"""Metrics of a whole call."""
_BY_UNIT: Final = {"byte": ("GB/s",), "FLOP": ("GFLOP/s", "TFLOP/s")}
_MOST_OF_A_UNIT: Final = 1e18
"""Bytes or FLOPs: no machine has so many for a unit of work, and a floor of them says nothing."""
_LONGEST_S: Final = 1e6
"""Eleven days: clocks of the system take no infinite wait."""


@dataclass(frozen=True, slots=True)
class _Work:
    function: str = ""
    command: tuple[str, ...] = ()
    value: str = ""
    timeout_s: float = 600.0
    bytes: float | None = None
    flops: float | None = None


@dataclass(frozen=True, slots=True)
class _Reference:
    function: str = ""
    command: tuple[str, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class _Rival:
    name: str = ""
    function: str = ""
    command: tuple[str, ...] = ()
    required: bool = False


def read_work(path: Path, raw: dict[str, Any]) -> tuple[OwnWork, Rivals]:
    """What is measured, what is right, and whom it is measured beside."""
    work = table(path, "work", raw["work"], _Work)
    if "reference" not in raw:
        raise InputError(
            f"{path}: expected [reference], another implementation whose outputs are right, got none",
            'function = "FILE.py:NAME" or command = [...]; tolerance = 1e-6 where it rounds otherwise',
        )
    reference = table(path, "reference", raw["reference"], _Reference)
    listed = raw.get("rivals", [])
    if not isinstance(listed, list):
        raise InputError(
            f"{path}: rivals: expected [[rivals]] beside [work], each with a name, got {listed!r}"
        )
    rivals = [table(path, f"rivals[{place}]", rival, _Rival) for place, rival in enumerate(listed)]
    for place, rival in enumerate(rivals):
        if rival.name in ("", BEST_RIVAL, *(other.name for other in rivals[:place])):
            raise InputError(
                f"{path}: rivals[{place}].name: expected a name of its own, got {rival.name!r}"
            )
    own = OwnWork(
        ours=_implementation(path, "work", raw["work"], work),
        reference=_implementation(path, "reference", raw["reference"], reference),
        rivals=tuple(
            _implementation(path, f"rivals[{place}]", raw_rival, rival)
            for place, (raw_rival, rival) in enumerate(zip(listed, rivals, strict=True))
        ),
        tolerance=reference.tolerance,
        value=work.value,
        timeout_s=work.timeout_s,
        bytes=work.bytes,
        flops=work.flops,
    )
    _check(path, own)
    required = tuple(rival.name for rival in rivals if rival.required)
    return own, Rivals(tuple(rival.name for rival in rivals), required)


def _implementation(
    path: Path, where: str, raw: dict[str, Any], read: _Work | _Reference | _Rival
) -> Implementation:
    if bool(read.function) == bool(read.command):
        got = "both" if read.function else "neither"
        raise InputError(
            f"{path}: {where}: expected either a function or a command, got {got}",
            'function = "FILE.py:NAME", or command = ["./program", "{input}"]',
        )
    if read.function:
        check_function(path, f"{where}.function", read.function)
    elif not isinstance(raw["command"], list):
        raise InputError(
            f"{path}: {where}.command: expected a list of words, got {raw['command']!r}",
            'a line of a shell is ["sh", "-c", "..."]',
        )
    return Implementation(
        read.function, read.command, read.name if isinstance(read, _Rival) else ""
    )


def check_function(path: Path, where: str, text: str) -> None:
    """Refuse what names no function of a file."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise InputError(f"{path}: {where}: expected FILE.py:NAME, got {text!r}")


def _check(path: Path, work: OwnWork) -> None:
    if work.ours.text == work.reference.text:
        raise InputError(
            f"{path}: reference: expected another implementation than that of [work], got the same"
        )
    if not 0.0 <= work.tolerance < 1.0:
        raise InputError(
            f"{path}: reference.tolerance: expected a share from 0 to 1, got {work.tolerance:g}"
        )
    if not 0.0 < work.timeout_s <= _LONGEST_S:
        raise InputError(
            f"{path}: work.timeout_s: expected more than 0, at most {_LONGEST_S:,.0f}, got {work.timeout_s:g}"
        )
    for name, amount in (("bytes", work.bytes), ("flops", work.flops)):
        if amount is not None and not 0.0 < amount <= _MOST_OF_A_UNIT:
            raise InputError(
                f"{path}: work.{name}: expected more than 0, at most {_MOST_OF_A_UNIT:g} of a unit, got {amount:g}"
            )
    measured = [("work", work.ours), *((f"rival {rival.name}", rival) for rival in work.rivals)]
    for where, measures in measured:
        if work.value and measures.function:
            raise InputError(
                f"{path}: work.value: expected commands, which print it, got a function of {where}"
            )


def check_metric(path: Path, unit: str, metric: str, work: OwnWork) -> None:
    """The metric is of a call, or counts the unit of work; any where the command reports it."""
    if is_of_work(metric, unit) or (work.value and metric in UNITS):
        unit_named(metric)
        return
    counting = (f"ns/{unit}", f"{unit}s/s") if counted_in(f"ns/{unit}") else ()
    offered = (*TIMES, *counting, *_BY_UNIT.get(unit, ()))
    raise InputError(
        f"{path}: metric: expected one of {', '.join(offered)}, got {metric!r}",
        "ns, us, ms and s are of a call; others count the unit of work in small letters, as M rows/s does rows",
    )


def is_of_work(metric: str, unit: str) -> bool:
    """Whether a metric is of a call or of units of work, so that it says what a run took."""
    return metric in (*TIMES, *_BY_UNIT.get(unit, ())) or counted_in(metric) == unit


def check_placeholders(path: Path, work: OwnWork, data: ClaimData) -> None:
    """Every seed must be other work: a command reads its data, or is told the seed."""
    if data.generator:
        check_function(path, "data.generator", data.generator)
    for where, command in _commands(work):
        words = " ".join(command)
        if data.file or data.generator or SEED in words:
            continue
        raise InputError(
            f"{path}: {where}.command: expected {SEED} among its words, or a data.generator, got neither",
            "without them every seed is the same work",
        )


def _commands(work: OwnWork) -> Iterator[tuple[str, tuple[str, ...]]]:
    named = [("work", work.ours), ("reference", work.reference)]
    named += [(f"rivals: {rival.name}", rival) for rival in work.rivals]
    return ((where, one.command) for where, one in named if one.command)
