"""`assay store gc`: garbage, and what a retention policy lets go."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, size, table, working
from assay.cli.runs import when
from assay.cli.store import Place
from assay.cli.store_terms import Where, terms_of
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.store.collecting import Collected
    from assay.store.retaining import Policy


def store_gc_command(
    terms: Annotated[list[str] | None, argument("[TERM]...", "More terms of --where.")] = None,
    place: Place = None,
    keep_last: Annotated[
        int | None,
        option(
            "--keep-last N",
            "Let versions go but the N latest of each kind, model, engine, accelerator and workload.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        option(
            "--older-than TIME",
            "Let versions go that were made and pushed longer ago: 90d. With --keep-last, both must hold.",
        ),
    ] = None,
    where: Where = None,
    grace: Annotated[
        str, option("--grace TIME", "Keep garbage that is younger: 0s, 90m, 24h.")
    ] = "24h",
    dry_run: Annotated[bool, option("--dry-run", "Only say what would be removed.")] = False,
    as_json: options.Json = False,
) -> Report:
    """Remove objects that no item refers to: of removed items, and of pushes that were cut short.

    With --keep-last or --older-than, first versions of items, among those that --where finds. What is
    tagged keep stays, as does a signed report, and the original of a redacted copy. Others may push
    meanwhile; what a push is about to refer to stays, whatever the grace period is, and is listed: a
    push counts until an hour after it was last heard of, one killed on this machine no longer.
    Leftovers are unfinished files and markers of commands that were killed, and tags without an item.
    """
    from assay.load.workloads.spec import parse_duration
    from assay.store.collecting import collect

    policy = _policy(terms, where, keep_last, older_than)
    grace_s = 0.0 if grace in ("0", "0s") else parse_duration("--grace", grace, unit=None)
    with working("looking for garbage") as progress:
        collected = collect(
            place, grace_s=grace_s, dry_run=dry_run, policy=policy, progress=progress
        )
    return report_of(collected, lambda canvas: _text(collected, grace, canvas), as_json)


def _policy(
    words: list[str] | None, where: list[str] | None, keep_last: int | None, older_than: str | None
) -> "Policy | None":
    from assay.load.workloads.spec import parse_duration
    from assay.store.retaining import Policy

    names, terms = terms_of(words, where)
    if names:
        raise InputError(
            f"expected terms after --where, got {names[0]} without it",
            "assay store remove removes an item by its name",
        )
    if keep_last is None and older_than is None and not terms:
        return None
    older_than_s = (
        None if older_than is None else parse_duration("--older-than", older_than, unit=None)
    )
    return Policy(keep_last, older_than_s, terms)


def _text(collected: "Collected", grace: str, canvas: Canvas) -> Iterator[Line]:
    verb = "would remove" if collected.dry_run else "removed"
    rows: list[tuple[Part, ...]] = [
        (
            (version.item, styles.NAME),
            version.manifest[:8],
            when(version.created_at),
            size(version.bytes),
        )
        for version in collected.expired
    ]
    yield from table((verb, "version", "made (UTC)", "size"), rows, canvas, right=(3,))
    rows = [((each.item, styles.NAME), each.manifest[:8], each.reason) for each in collected.spared]
    yield from table(("kept all the same", "version", "why"), rows, canvas)
    words = (
        f"{count(collected.objects, 'object')}, {count(collected.manifests, 'manifest')}, "
        f"{count(collected.leftovers, 'leftover')}: {size(collected.bytes)}"
    )
    if collected.expired:
        words = f"{count(len(collected.expired), 'version')}, {words}"
    yield f"{verb} {words}"
    for push in collected.pushes:
        heard = f"last heard of at {when(push.renewed_at)} UTC"
        yield f"kept for a push of {push.item}: {size(push.bytes)}; {heard}"
        yield f"  until {when(push.until)} UTC, unless it goes on: {push.marker}"
    if collected.waiting:
        waiting = f"{count(collected.waiting, 'object')}, {size(collected.waiting_bytes)}"
        yield f"younger than {grace}, and left: {waiting}; --grace 0s takes them too"
