"""`assay catalog`: sourced values that scenarios include, and a probe of this machine."""

from collections.abc import Iterator
from typing import Annotated, Final

from assay.catalog.questions import (
    CatalogEntryAnswer,
    CatalogListAnswer,
    catalog_entries,
    catalog_entry,
    probe_host,
)
from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import (
    Canvas,
    Line,
    Part,
    Report,
    cut,
    facts,
    report_of,
    table,
    with_cut,
    working,
    wrapped,
)
from assay.errors import InputError, one_of

_ACTIONS: Final = ("list", "show", "probe")


def catalog_command(
    action: Annotated[str, argument("list|show|probe", "Action; list if not given.")] = "list",
    name: Annotated[
        str | None, argument("[NAME]", "list: a group; show: group/name, or a .json file.")
    ] = None,
    save: Annotated[
        str | None, option("--save FILE", "probe: write the entry to this .json file.")
    ] = None,
    force: Annotated[bool, option("--force", "Overwrite the file.")] = False,
    match: Annotated[
        str | None,
        option("--filter TEXT", "list: only entries whose names contain every word of the text."),
    ] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """List the catalog, show an entry, or measure this host.

    Every value has a source, a kind, a date, and the relative half-width of its 90 % interval.
    """
    chosen = one_of("action", action, _ACTIONS)
    if save is not None and chosen != "probe":
        raise InputError(f"--save cannot be used with {chosen}", "only probe takes --save")
    for option_name, is_given in (("--filter", match is not None), ("--limit", limit is not None)):
        if is_given and chosen != "list":
            raise InputError(
                f"{option_name} cannot be used with {chosen}", f"only list takes {option_name}"
            )
    if chosen == "probe":
        if name is not None:
            raise InputError(f'probe takes no name, got "{name}"', "use --save FILE")
        with working("measuring this machine"):
            return _show(probe_host(save, force=force), as_json)
    if chosen == "show":
        if name is None:
            raise InputError("show needs an entry", "assay catalog list names them")
        return _show(catalog_entry(name), as_json)
    return _list(catalog_entries(name, match, limit=limit or 0), limit, as_json)


def _list(answer: CatalogListAnswer, limit: int | None, as_json: bool) -> Report:
    rows_at_most = options.rows_at_most(limit, as_json)
    left_out = cut(rows_at_most, entries=answer.entries)

    def text(canvas: Canvas) -> Iterator[Line]:
        if not answer.entries:
            yield (("no entries of that kind; fewer words find more", styles.FAINT),)
        rows: list[tuple[Part, ...]] = [
            ((entry.path, styles.NAME), str(len(entry.values)), entry.title)
            for entry in answer.entries[: rows_at_most or None]
        ]
        yield from table(("entry", "values", "title"), rows, canvas, right=(1,))
        if left_out:
            yield ""
            yield ((left_out, styles.FAINT),)

    return report_of(with_cut(answer, left_out), text, as_json)


def _show(answer: CatalogEntryAnswer, as_json: bool) -> Report:
    entry = answer.entry

    def text(canvas: Canvas) -> Iterator[Line]:
        yield ((entry.path, styles.NAME), f": {entry.title}")
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
                (
                    (name, styles.NAME),
                    (value.text, styles.VALUE),
                    value.kind,
                    value.date,
                    spread,
                    f"[{mark}]",
                )
            )
        yield from table(("variable", "value", "kind", "date", "90 %", "source"), rows, canvas)
        yield ""
        for source, mark in sources.items():
            yield from wrapped(f"[{mark}] {source}", canvas, "    ", styles.FAINT)

    return report_of(answer, text, as_json)
