"""`assay store pull`: items of a store, by name or by what they are about."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, size, table, working
from assay.cli.store import Place
from assay.cli.store_terms import Where, terms_of
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.store.pulling_several import PulledItem, PulledItems


def store_pull_command(
    items: Annotated[
        list[str] | None,
        argument(
            "[ITEM]...",
            "Items: KIND/NAME, or a name or the start of one that no other has. After --where, more terms.",
        ),
    ] = None,
    where: Where = None,
    kind: Annotated[
        str | None, option("--kind KIND", "Items of this kind alone, as --where kind=KIND.")
    ] = None,
    place: Place = None,
    to: Annotated[
        Path | None,
        option(
            "--to PATH",
            "Where it goes; by default where commands look for its kind. Several go to PATH/KIND/NAME.",
        ),
    ] = None,
    version: Annotated[
        str | None,
        option("--manifest DIGITS", "The version of this manifest; by default the last pushed."),
    ] = None,
    dry_run: Annotated[
        bool, option("--dry-run", "Only list what would be pulled, with its bytes.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Get an item from a store, or all that --where finds.

    Of several versions the one pushed last, which may be a redacted copy: a note says so and names
    the version with prompts and names, if it is stored, for --manifest.

    Every byte is hashed; an item of which anything is damaged does not appear. A pull that was cut
    short goes on where it was: the same command fetches what is missing.
    """
    names, terms = terms_of(items, where, kind)
    if not names and not terms:
        raise InputError(
            "expected an item or --where, got neither", "assay store list names the items"
        )
    if len(names) == 1 and not terms:
        if not dry_run:
            return _one(names[0], place, to, version, as_json)
        from assay.store.pulling_several import would_pull

        listed = would_pull(names[0], place, to=to, version=version)
        return report_of(listed, lambda canvas: _several(listed, canvas), as_json)
    if version is not None:
        raise InputError(
            "--manifest: expected one item, got several or a query",
            f"--where manifest={version} finds it by its version",
        )
    from assay.store.pulling_several import pull_several

    with working("pulling") as progress:
        pulled = pull_several(names, place, terms=terms, to=to, dry_run=dry_run, progress=progress)
    return report_of(pulled, lambda canvas: _several(pulled, canvas), as_json)


def _one(
    item: str, place: str | None, to: Path | None, version: str | None, as_json: bool
) -> Report:
    from assay.store.pulling import pull

    with working("pulling") as progress:
        pulled = pull(item, place, to=to, version=version, progress=progress)
    words = f"{pulled.item}: {count(pulled.files, 'file')}, {size(pulled.bytes)}"
    where = f"was there, whole: {pulled.place}" if pulled.was_there else f"in {pulled.place}"
    return report_of(pulled, lambda canvas: [words, where], as_json)


def _several(pulled: "PulledItems", canvas: Canvas) -> Iterator[Line]:
    rows: list[tuple[Part, ...]] = [
        (
            (item.item, styles.BAD if item.reason else styles.NAME),
            item.manifest[:8],
            "" if item.bytes is None else size(item.bytes),
            _words(item),
        )
        for item in pulled.items
    ]
    yield from table(("item", "version", "size", ""), rows, canvas, right=(2,))
    if not rows:
        yield "nothing matches"
        return
    total = f"{count(len(rows), 'item')}, {size(pulled.bytes)}"
    if pulled.dry_run:
        yield f"would pull {total}"
        return
    whole = [item for item in pulled.items if item.outcome != "refused"]
    if len(whole) < len(rows):
        total = f"{len(whole):,} of {count(len(rows), 'item')}, {size(sum(item.bytes or 0 for item in whole))}"
    yield f"{total}, {size(pulled.fetched_bytes)} fetched"


def _words(item: "PulledItem") -> str:
    return {
        "pulled": f"in {item.place}",
        "there": f"was there, whole: {item.place}",
        "refused": f"refused: {item.reason}",
        "wanted": f"to {item.place}",
        "exists": f"exists, and would be compared: {item.place}",
    }[item.outcome]
