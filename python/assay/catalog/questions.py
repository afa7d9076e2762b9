"""The questions about the catalog: its entries, one of them, and what this machine measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers import Answer
from assay.catalog import entries
from assay.catalog.entries import CatalogEntry
from assay.errors import InputError, one_of


@dataclass(frozen=True)
class CatalogListAnswer(Answer):
    """Entries of the catalog; as JSON `limit` of them, 0 for all."""

    entries: Sequence[CatalogEntry]
    limit: int = 0

    def to_json(self) -> list[dict[str, Any]]:
        """What each entry is called, and how many values it has, as JSON data."""
        return [
            {
                "path": entry.path,
                "title": entry.title,
                "aliases": list(entry.aliases),
                "values": len(entry.values),
            }
            for entry in self.entries[: self.limit or None]
        ]


def catalog_entries(
    group: str | None = None, match: str | None = None, *, limit: int = 0
) -> CatalogListAnswer:
    """The entries of a group, or of all groups, whose names contain every word of a text.

    >>> [entry.path for entry in catalog_entries("accelerators", "sxm h200").entries]
    ['accelerators/h200_sxm']
    """
    groups = entries.groups()
    chosen = groups if group is None else [one_of("catalog group", group, groups)]
    words = (match or "").casefold().split()
    listed = [entry for name in chosen for entry in _entries(name)]
    kept = [entry for entry in listed if all(word in _names(entry) for word in words)]
    return CatalogListAnswer(kept, limit)


def _names(entry: CatalogEntry) -> str:
    return " ".join((entry.path, entry.title, *entry.aliases)).casefold()


def _entries(group: str) -> Iterator[CatalogEntry]:
    if group == "models":
        from assay.catalog import models

        return (model.entry for model in models.all_models())
    return entries.entries(group)


@dataclass(frozen=True)
class CatalogEntryAnswer(Answer):
    """An entry with its facts and sourced values."""

    entry: CatalogEntry

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON data."""
        entry = self.entry
        return {
            "path": entry.path,
            "title": entry.title,
            "aliases": list(entry.aliases),
            "facts": dict(entry.facts),
            "values": {name: value.to_data() for name, value in entry.values.items()},
        }


def catalog_entry(path: str) -> CatalogEntryAnswer:
    """An entry by `group/name` or from a .json file in the catalog's format."""
    return CatalogEntryAnswer(_find(path))


def _find(path: str) -> CatalogEntry:
    if path.endswith(".json"):
        return entries.from_file(Path(path))
    group, _, name = path.partition("/")
    if not name:
        raise InputError(f'malformed entry "{path}": expected group/name')
    one_of("catalog group", group, entries.groups())
    if group == "models":
        from assay.catalog import models

        return models.find(name).entry
    if group == "accelerators":
        from assay.catalog import accelerators

        return accelerators.find(name)
    return entries.find(group, name, f"entry of {group}")


def probe_host(save: str | None = None, *, force: bool = False) -> CatalogEntryAnswer:
    """Measure this host; with `save` the entry is written to a .json file."""
    from assay.catalog.probe import probe, write_entry

    entry = probe()
    notes: tuple[str, ...] = ()
    if save is not None:
        write_entry(entry, Path(save), force=force)
        notes = (f"written to {save}; use it with --with {save}",)
    return CatalogEntryAnswer(entry, notes=notes)
