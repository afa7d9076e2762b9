"""The hash chain: each line of a journal carries a hash over itself and the hash of the line before.

The hash of a record is SHA-256 over the previous hash (64 hexadecimal digits) and the canonical
JSON of the record without its hash: sorted keys, no spaces, ASCII. A line must be exactly that text,
so that an edit is caught even where it does not change the parsed values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import PurePath
from typing import Any, Final

GENESIS: Final = "0" * 64
"""What stands for the previous hash of the first record."""

_HASH_KEY: Final = ',"hash":"'
_KEYS: Final = {"at", "data", "hash", "kind", "number"}


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a journal."""

    number: int
    """From 0, without gaps."""
    at: float
    """Seconds since 1970 by the wall clock: for reading only, the order is that of the numbers."""
    kind: str
    data: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class ChainReading:
    """What was found in the bytes of a journal."""

    records: tuple[Record, ...]
    """The records up to the first problem."""
    problems: tuple[str, ...]
    """What is wrong with the chain; empty where every complete line is right."""
    good_bytes: int
    """Length of the lines of `records`."""
    tail: bytes
    """What follows the last complete line: a write that did not finish."""

    @property
    def head(self) -> str:
        """The hash of the last record."""
        return self.records[-1].hash if self.records else GENESIS


def plain(value: Any) -> Any:
    """A value as JSON has it; NaN and infinities become null, data classes become objects.

    >>> plain({"path": PurePath("a/b"), "ratio": float("nan"), "pair": (1, 2)})
    {'path': 'a/b', 'ratio': None, 'pair': [1, 2]}
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return plain(value.item())
    raise TypeError(f"a journal cannot hold {type(value).__name__}: expected data that JSON has")


def canonical(value: Any) -> str:
    """JSON that is equal for equal data: sorted keys, no spaces, ASCII.

    >>> canonical({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON: how configurations are compared."""
    return hashlib.sha256(canonical(plain(value)).encode()).hexdigest()


def chained(previous: str, body: str) -> str:
    """The hash of a record's canonical JSON after a previous hash."""
    return hashlib.sha256((previous + body).encode()).hexdigest()


def to_line(
    previous: str, number: int, at: float, kind: str, data: Mapping[str, Any]
) -> tuple[str, bytes]:
    """The hash and the line of a record."""
    body = canonical({"at": at, "data": plain(data), "kind": kind, "number": number})
    own = chained(previous, body)
    return own, f'{body[:-1]}{_HASH_KEY}{own}"}}\n'.encode()


def read_chain(content: bytes) -> ChainReading:
    """Check the lines of a journal in order, up to the first that is not right."""
    *lines, tail = content.split(b"\n")
    records: list[Record] = []
    previous, good_bytes = GENESIS, 0
    for number, line in enumerate(lines):
        record = _record(line, previous, number)
        if isinstance(record, str):
            left = len(lines) - number - 1
            after = f"; {left:,} lines after it are not trusted" if left else ""
            return ChainReading(
                tuple(records), (f"line {number + 1:,}: {record}{after}",), good_bytes, tail
            )
        records.append(record)
        previous = record.hash
        good_bytes += len(line) + 1
    return ChainReading(tuple(records), (), good_bytes, tail)


def _record(line: bytes, previous: str, number: int) -> Record | str:
    """The record of a line, or what is wrong with it."""
    try:
        data = json.loads(line)
        if not isinstance(data, dict) or set(data) != _KEYS:
            return f"expected an object with {', '.join(sorted(_KEYS))}"
        stated = data.pop("hash")
        body = canonical(data)
        # Byte by byte: neither a space nor a repeated key may hide.
        if f'{body[:-1]}{_HASH_KEY}{stated}"}}'.encode() != line:
            return "the text is not the canonical JSON of its data: it was edited"
    except (ValueError, RecursionError) as error:
        return f"expected JSON, got: {error}"
    if data["number"] != number or isinstance(data["number"], bool):
        return f"expected record {number:,}, got {data['number']!r}: lines are missing or moved"
    if chained(previous, body) != stated:
        return "its hash is not that of its content and the hash before it"
    if not isinstance(data["data"], dict) or not isinstance(data["kind"], str):
        return "expected a kind and an object of data"
    return Record(number, data["at"], data["kind"], data["data"], stated)
