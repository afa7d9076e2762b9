"""What a what-if asks for: changes as the command line writes them, parsed and checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError, unknown_name
from assay.lazy_import import pl
from assay.observe.operations import is_operation

_TIMES: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_AMOUNT: Final = re.compile(r"([+-]?\d{1,12}(?:\.\d{1,9})?)(ns|us|ms|s|x|%)")
_CLOCK: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(mhz|ghz|x)")
_UNITS: Final = {"mhz": 1e6, "ghz": 1e9}

MEANINGS: Final[Mapping[str, str]] = {
    "op:NAME=AMOUNT": "kernels of an operation: 0.8x, -20%, or 12us each",
    "kernel:REGEX=AMOUNT": "kernels and copies whose name matches",
    "launch=graph": "the kernels of each forward pass run as one CUDA graph",
    "host=AMOUNT": "host work between calls: 0, 0.5x; launches and waits stay",
    "overlap=copies": "copies run beside kernels, unless the host waits for them",
    "batch=COUNT": "sequences that decode in a step",
    "context=TOKENS": "tokens in the KV cache of each sequence",
    "kv=FORMAT": "format of the KV cache",
    "weights=FORMAT": "format of the weights",
    "clock=AMOUNT": "clock of the device: 1200MHz, 0.8x",
    "gpu=NAME": "another accelerator of the catalog, or a calibration file",
    "max_num_seqs=COUNT": "sequences that the scheduler runs at once (under load)",
    "max_num_batched_tokens=COUNT": "tokens that the scheduler computes in a step (under load)",
    "policy=NAME": "order of the scheduler: fcfs, priority, shortest (under load)",
    "kv_tokens=COUNT": "tokens that the KV cache holds (under load)",
    "block_size=COUNT": "tokens in a block of the KV cache (under load)",
    "rate=REQUESTS": "requests that arrive in a second (under load)",
}
"""Every change, and what it means; `assay whatif --help` lists them."""

COUNTS: Final = (
    "batch", "context", "max_num_seqs", "max_num_batched_tokens", "kv_tokens", "block_size",
)  # fmt: skip
NODE_KINDS: Final = ("op", "kernel", "launch", "host", "overlap")
"""Changes of the dependency graph itself; the others need the step-cost model."""
LOAD_KINDS: Final = (
    "max_num_seqs", "max_num_batched_tokens", "policy", "kv_tokens", "block_size", "rate",
)  # fmt: skip
"""Changes that only show under load."""
POLICIES: Final = ("fcfs", "priority", "shortest")


@dataclass(frozen=True, slots=True)
class Amount:
    """A factor, or a time for each event."""

    factor: float | None = None
    ns: float | None = None


@dataclass(frozen=True, slots=True)
class WhatIfChange:
    """One change: what, and to what value."""

    text: str
    kind: str
    target: str = ""
    """The operation, or the pattern of kernel names."""
    amount: Amount | None = None
    value: str | float = ""


def parse(text: str) -> WhatIfChange:
    """A change as the command line writes it.

    >>> parse("op:attention=0.8x").amount
    Amount(factor=0.8, ns=None)
    >>> parse("batch=64").value
    64.0
    """
    name, separator, value = text.partition("=")
    kind, colon, target = name.partition(":")
    known = {meaning.partition("=")[0].partition(":")[0] for meaning in MEANINGS}
    if kind not in known:
        raise unknown_name("change", kind, sorted(known))
    if not separator or not value:
        usage = next(meaning for meaning in MEANINGS if meaning.split(":")[0].split("=")[0] == kind)
        raise InputError(f'change "{text}": expected {usage}')
    if kind in ("op", "kernel"):
        if not colon or not target:
            raise InputError(f'change "{text}": expected {kind}:NAME=AMOUNT')
        _check_target(kind, target, text)
        return WhatIfChange(text, kind, target, amount(value, text))
    if colon:
        raise InputError(f'change "{text}": expected {kind}=VALUE, got a name after the colon')
    if kind == "host":
        return WhatIfChange(text, kind, amount=amount(value, text))
    return WhatIfChange(text, kind, value=_value(kind, value, text))


def parse_all(texts: Iterable[str]) -> tuple[WhatIfChange, ...]:
    """Several changes at once; one kind may not be given two values."""
    changes = tuple(parse(text) for text in texts)
    seen: dict[tuple[str, str], str] = {}
    for change in changes:
        before = seen.setdefault((change.kind, change.target), change.text)
        if before != change.text:
            raise InputError(f'change "{change.text}": "{before}" changes the same already')
    return changes


def amount(value: str, text: str) -> Amount:
    """A factor (`0.8x`, `-20%`, `0`) or a time for each event (`12us`)."""
    if value == "0":
        return Amount(factor=0.0)
    matched = _AMOUNT.fullmatch(value)
    if matched is None:
        raise InputError(
            f'change "{text}": expected an amount such as 0.8x, -20% or 12us, got {value}'
        )
    number, unit = float(matched.group(1)), matched.group(2)
    if unit == "%":
        number = 1 + number / 100
    if number < 0:
        raise InputError(f'change "{text}": expected at least 0, got {value}')
    if unit in _TIMES:
        return Amount(ns=number * _TIMES[unit])
    return Amount(factor=number)


def _check_target(kind: str, target: str, text: str) -> None:
    if kind == "op":
        if not is_operation(target):
            from assay.observe.operations import LAYER_OPERATIONS, STEP_OPERATIONS

            raise unknown_name("operation", target, (*LAYER_OPERATIONS, *STEP_OPERATIONS))
        return
    matching((), target, text)


def matching(names: Sequence[str], pattern: str, text: str) -> list[bool]:
    """Which names hold a pattern that somebody typed; in linear time, whatever the pattern."""
    try:
        return pl.Series(names, dtype=pl.String).str.contains(pattern).to_list()
    except pl.exceptions.ComputeError as error:
        raise InputError(
            f'change "{text}": expected a regular expression, got {pattern}', str(error)
        ) from error


def _value(kind: str, value: str, text: str) -> str | float:
    choices = {"launch": ("graph",), "overlap": ("copies",), "policy": POLICIES}
    if kind in choices:
        if value not in choices[kind]:
            raise InputError(
                f'change "{text}": expected {kind}={" or ".join(choices[kind])}, got {value}'
            )
        return value
    if kind in COUNTS:
        if not value.isascii() or not value.isdecimal() or not 1 <= int(value) <= 10**9:
            raise InputError(f'change "{text}": expected a whole number from 1, got {value}')
        return float(value)
    if kind == "rate":
        try:
            rate = float(value)
        except ValueError:
            rate = 0.0
        if not 0 < rate < 1e9:
            raise InputError(f'change "{text}": expected requests a second above 0, got {value}')
        return rate
    if kind == "clock":
        matched = _CLOCK.fullmatch(value.lower())
        if matched is None or float(matched.group(1)) <= 0:
            raise InputError(f'change "{text}": expected 1200MHz, 1.2GHz or 0.8x, got {value}')
        return value.lower()
    return value


def clock_ratio(value: str, clock_hz: float | None, text: str) -> float:
    """What a changed clock is of the one before."""
    matched = _CLOCK.fullmatch(value)
    assert matched is not None
    number, unit = float(matched.group(1)), matched.group(2)
    if unit == "x":
        return number
    if clock_hz is None:
        raise InputError(
            f'change "{text}": the clock of the trace is not known',
            "give a factor such as clock=0.8x",
        )
    return number * _UNITS[unit] / clock_hz
