"""Catalog entries: values keyed by graph variables, each with its source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from assay.catalog.sourced_value import SourcedValue, read_value
from assay.errors import InputError, unknown_name
from assay.files import read_json
from assay.model.language.quantity import parse_quantity

_FOLDER = Path(__file__).parent / "data"
_KNOWN = ("group", "title", "aliases", "defaults", "values")


@dataclass(frozen=True)
class CatalogEntry:
    """A named group of values, such as an accelerator or a tariff."""

    group: str
    name: str
    title: str
    values: Mapping[str, SourcedValue]
    aliases: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """How scenarios include the entry, such as `accelerators/h100_sxm`."""
        return f"{self.group}/{self.name}"

    @cached_property
    def given(self) -> dict[str, float]:
        """Values by variable in base units, parsed once."""
        return {name: parse_quantity(value.text).value for name, value in self.values.items()}


def groups() -> list[str]:
    """Groups that hold entries, such as `accelerators`."""
    return sorted(folder.name for folder in _FOLDER.iterdir() if folder.is_dir())


@cache
def names(group: str) -> tuple[str, ...]:
    """Names of the entries of a group."""
    files = os.listdir(_FOLDER / group)
    return tuple(sorted(name[: -len(".json")] for name in files if name.endswith(".json")))


@cache
def read(group: str, name: str) -> CatalogEntry:
    """One entry by group and exact name."""
    path = _FOLDER / group / f"{name}.json"
    if name not in names(group):
        raise unknown_name(
            f"entry of {group}", name, names(group), f"assay catalog list {group} lists them"
        )
    return from_data(json.loads(path.read_text(encoding="utf-8")), group, name)


def entries(group: str) -> Iterator[CatalogEntry]:
    """All entries of a group."""
    return (read(group, name) for name in names(group))


def from_data(data: Mapping[str, Any], group: str, name: str) -> CatalogEntry:
    """An entry from its file's content; facts of a value default to those of the entry."""
    stated = data.get("values")
    if not isinstance(stated, Mapping):
        raise InputError(f"catalog entry {name}: expected values by variable, got {stated!r}")
    defaults = data.get("defaults", {})
    values = {
        variable: read_value(f"{group}/{name}: {variable}", item, defaults)
        for variable, item in stated.items()
    }
    return CatalogEntry(
        group, name, str(data.get("title", name)), values, tuple(data.get("aliases", ())),
        {key: item for key, item in data.items() if key not in _KNOWN},
    )  # fmt: skip


def from_file(path: Path) -> CatalogEntry:
    """A user's entry, from a JSON file in the catalog's format."""
    data = read_json("catalog file", path)
    if not isinstance(data, dict):
        raise InputError(f"catalog file {path.name}: expected an object with values")
    return from_data(data, str(data.get("group", "files")), path.stem)


@lru_cache(maxsize=4096)
def normalize_name(name: str) -> str:
    """A name in lower case without spaces and punctuation, for comparing spellings."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == ".")


def find(group: str, name: str, what: str) -> CatalogEntry:
    """The entry of a group that has this name, title or alias."""
    if name in names(group):
        return read(group, name)
    normalized = normalize_name(name)
    for entry in entries(group):
        if normalized in {
            normalize_name(spelling) for spelling in (entry.name, entry.title, *entry.aliases)
        }:
            return entry
    raise unknown_name(what, name, names(group), f"assay catalog list {group} lists them")
