"""`assay catalog`: sourced values that scenarios include, and a probe of this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from assay.catalog import entries
from assay.catalog.entries import CatalogEntry
from assay.cli import options
from assay.cli.output import (
    FAINT,
    NAME,
    VALUE,
    Canvas,
    Line,
    Part,
    Report,
    facts,
    table,
    working,
    wrapped,
)
from assay.cli.question import one_of
from assay.errors import InputError

_ACTIONS: Final = ("list", "show", "probe")


def catalog_command(
    action: Annotated[
        str, typer.Argument(metavar="list|show|probe", help="Action; list if not given.")
    ] = "list",
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="list: a group; show: group/name, or a .json file."),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="FILE", help="probe: write the entry to this .json file."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: options.Json = False,
) -> Report:
    """List the catalog, show an entry, or measure this host.

    Every value has a source, a kind, a date, and the relative half-width of its 90 % interval.
    """
    chosen = one_of("action", action, _ACTIONS)
    if save is not None and chosen != "probe":
        raise InputError(f"--save cannot be used with {chosen}", "only probe takes --save")
    if chosen == "probe":
        if name is not None:
            raise InputError(f'probe takes no name, got "{name}"', "use --save FILE")
        return _probe(save, force, as_json)
    if chosen == "show":
        if name is None:
            raise InputError("show needs an entry", "assay catalog list names them")
        return _show(find_entry(name), as_json)
    return _list(name, as_json)


def find_entry(path: str) -> CatalogEntry:
    """An entry by `group/name` or from a file in the catalog's format."""
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


def _entries(group: str) -> Iterator[CatalogEntry]:
    if group == "models":
        from assay.catalog import models

        return (model.entry for model in models.all_models())
    return entries.entries(group)


def _list(group: str | None, as_json: bool) -> Report:
    groups = entries.groups()
    group_names = groups if group is None else [one_of("catalog group", group, groups)]
    found = [entry for name in group_names for entry in _entries(name)]
    data = [
        {
            "path": entry.path,
            "title": entry.title,
            "aliases": list(entry.aliases),
            "values": len(entry.values),
        }
        for entry in found
    ]

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[tuple[Part, ...]] = [
            ((entry.path, NAME), str(len(entry.values)), entry.title) for entry in found
        ]
        yield from table(("entry", "values", "title"), rows, canvas, right=(1,))

    return Report(data, text, as_json)


def entry_data(entry: CatalogEntry) -> dict[str, Any]:
    """An entry as JSON data."""
    return {
        "path": entry.path,
        "title": entry.title,
        "aliases": list(entry.aliases),
        "facts": dict(entry.facts),
        "values": {name: value.to_data() for name, value in entry.values.items()},
    }


def _show(entry: CatalogEntry, as_json: bool, notes: tuple[str, ...] = ()) -> Report:
    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((entry.path, NAME), f": {entry.title}")
        scalars = [
            (key, item) for key, item in entry.facts.items() if isinstance(item, str | int | float)
        ]
        if scalars:
            yield ""
            yield from facts([(key, str(item)) for key, item in scalars], canvas)
        yield ""
        sources: dict[str, int] = {}
        rows: list[tuple[Part, ...]] = []
        for name, value in entry.values.items():
            mark = sources.setdefault(value.source, len(sources) + 1)
            spread = f"{value.uncertainty:.1%}" if value.uncertainty else "exact"
            rows.append(
                ((name, NAME), (value.text, VALUE), value.kind, value.date, spread, f"[{mark}]")
            )
        yield from table(("variable", "value", "kind", "date", "90 %", "source"), rows, canvas)
        yield ""
        for source, mark in sources.items():
            yield from wrapped(f"[{mark}] {source}", canvas, "    ", FAINT)

    return Report(entry_data(entry), text, as_json, notes=notes)


def _probe(save: str | None, force: bool, as_json: bool) -> Report:
    from assay.catalog.probe import probe, write_entry

    with working("measuring this machine"):
        entry = probe()
    notes: tuple[str, ...] = ()
    if save is not None:
        write_entry(entry, Path(save), force=force)
        notes = (f"written to {save}; use it with --with {save}",)
    return _show(entry, as_json, notes)
