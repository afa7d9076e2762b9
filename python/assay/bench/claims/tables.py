"""Tables of a `bench.toml` as dataclasses: each value of the type that the class states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assay.errors import InputError, unknown_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Table = TypeVar("Table", bound="DataclassInstance")


def table(path: Path, where: str, raw: Any, kind: type[Table]) -> Table:
    """A table of the file as a dataclass, each value of the type that the class states."""
    if not isinstance(raw, dict):
        raise InputError(f"{path}: {where}: expected a table, got {raw!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    known_keys(path, where, raw, set(fields))
    values = {
        name: _value(f"{path}: {where}.{name}", value, str(fields[name].type))
        for name, value in raw.items()
    }
    return kind(**values)


def known_keys(path: Path, where: str, raw: Mapping[str, Any], known: set[str]) -> None:
    """Refuse keys that a table does not have."""
    for name in raw:
        if name not in known:
            unknown = unknown_name("key", name, sorted(known))
            place = f"{where}: " if where else ""
            raise InputError(f"{path}: {place}{unknown.message}", unknown.hint)


def _value(where: str, value: Any, kind: str) -> Any:
    """The value as a field has it; tuples are lists in the file."""
    expected: dict[str, tuple[str, type | tuple[type, ...]]] = {
        "str": ("a text", str),
        "str | None": ("a text", str),
        "bool": ("true or false", bool),
        "int": ("a whole number", int),
        "int | None": ("a whole number", int),
        "float": ("a number", (int, float)),
        "float | None": ("a number", (int, float)),
        "Mapping[str, Any]": ("a table", dict),
    }
    if kind in ("tuple[str, ...]", "tuple[int, ...]"):
        member = kind[6:9]
        values = value if isinstance(value, list) else [value]
        return tuple(_value(where, part, member) for part in values)
    words, types = expected[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise InputError(f"{where}: expected {words}, got {value!r}")
    return value
