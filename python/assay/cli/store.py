"""`assay store`: runs, traces, telemetry, results and calibrations that a team shares."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import (
    Canvas,
    Line,
    Part,
    Report,
    count,
    facts,
    report_of,
    size,
    table,
    working,
)
from assay.cli.runs import when
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.store.finding import Found
    from assay.store.leases import PushUnderWay
    from assay.store.pushing import Sent

Place = Annotated[
    str | None,
    option(
        "--store PLACE",
        "The store: a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; that "
        "of ASSAY_STORE if not given.",
    ),
]
ItemName = Annotated[
    str, argument("ITEM", "An item: KIND/NAME, or a name or the start of one that no other has.")
]


Kind = Annotated[
    str | None, option("--kind KIND", "Items of this kind alone, as the term kind=KIND.")
]
Limit = Annotated[int, option("--limit N", "Items at most; 0 for all.")]


def store_init_command(place: Place = None, as_json: options.Json = False) -> Report:
    """Make a store in a folder or a bucket: S3-compatible, of Google Cloud or of Azure.

    One that is there already stays as it is. Keys of a bucket come from the environment:
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, or
    AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY.
    """
    from assay.store.finding import make_store

    made = make_store(place)
    words = "made" if made.is_new else "was there:"
    return report_of(made, lambda canvas: [f"{words} store {made.store}"], as_json)


def store_status_command(place: Place = None, as_json: options.Json = False) -> Report:
    """Count what a store holds."""
    from assay.store.finding import store_status

    status = store_status(place)

    def text(canvas: Canvas) -> Iterator[Line]:
        yield from facts(
            [
                ("store", status.store),
                *((kind, f"{number:,}") for kind, number in status.kinds.items() if number),
                ("versions", f"{status.versions:,}"),
                ("objects", f"{status.objects:,}, {size(status.bytes)}"),
                ("not verified", count(status.unverified, "version") if status.unverified else ""),
                ("pushes", f"{status.pushes:,} under way or cut short" if status.pushes else ""),
                *(("", _push_words(push)) for push in status.under_way),
            ],
            canvas,
        )

    return report_of(status, text, as_json)


def _push_words(push: "PushUnderWay") -> str:
    until = f"counts until {when(push.until)} UTC, unless it goes on: {push.marker}"
    return f"{push.item}, {size(push.bytes)}, last heard of at {when(push.renewed_at)}, {until}"


def store_push_command(
    items: Annotated[
        list[str] | None,
        argument(
            "[ITEM]...",
            "Runs, traces and recordings by name or folder, files of results and calibrations.",
        ),
    ] = None,
    place: Place = None,
    every: Annotated[
        bool, option("--all", "All runs, traces, recordings and calibrations of this machine.")
    ] = False,
    tag: Annotated[
        list[str] | None, option("--tag WORD", "Something to find it by. May be repeated.")
    ] = None,
    check: Annotated[
        bool,
        option(
            "--check/--no-check",
            "Read objects back that the store has already, and replace damaged ones.",
        ),
    ] = True,
    redact: Annotated[
        bool,
        option(
            "--redact",
            "Push copies without prompts, paths and names of hosts, users and processes; runs still "
            "verify.",
        ),
    ] = False,
    redact_name: Annotated[
        list[str] | None,
        option("--redact-name TEXT", "A name to take out too; implies --redact. May be repeated."),
    ] = None,
    unverified: Annotated[
        bool, option("--unverified", "Push runs that do not verify too, marked as not verified.")
    ] = False,
    strays: Annotated[
        bool,
        option("--strays", "Push files too that are in the folder of a run but not of the run."),
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Put items into a store.

    A run is verified first, as assay verify-report does, and named by its id, whatever its folder
    is called; one that does not verify is refused. Files in its folder that the run did not write are
    left out and named.

    What the store has is not sent again, so a push that was cut short goes on. Two may push at
    once, the same item too. When the command ends with exit code 0, the store has all of it.
    """
    from assay.store.describing import find_item, stored_items
    from assay.store.pushing import push

    if bool(items) == every:
        raise InputError(
            f"expected items or --all, got {'both' if every else 'neither'}",
            "assay store push latest pushes the last run",
        )
    is_implied = bool(redact_name) and not redact
    redact = redact or is_implied
    if redact and unverified:
        raise InputError(
            "--unverified: expected it without --redact, got both",
            "a copy without names is made of a run that verifies",
        )
    with working("pushing") as progress, tempfile.TemporaryDirectory() as folder:
        chosen = list(stored_items()) if every else [find_item(text) for text in items or ()]
        if strays:
            chosen = [item.with_strays() for item in chosen]
        if redact:
            from assay.report.redaction import Redactor
            from assay.store.redacting import redacted

            redactor = Redactor(redact_name or ())
            # What does not verify is no copy's original: it is left as it is, and refused.
            chosen = [
                item if item.unverified else redacted(item, Path(folder), redactor)
                for item in chosen
            ]
        pushed = push(
            chosen, place, tags=tag or (), check=check, unverified=unverified, progress=progress
        )
    if is_implied and pushed.items:
        said = "--redact-name implies --redact: copies without names and prompts were pushed"
        pushed = replace(pushed, notes=(*pushed.notes, said))

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[tuple[Part, ...]] = [
            ((sent.item, styles.NAME), size(sent.bytes), size(sent.sent_bytes), _sent_words(sent))
            for sent in pushed.items
        ]
        rows += [
            ((item.item, styles.BAD), "", "", f"refused: {item.reason}") for item in pushed.refused
        ]
        yield from table(("item", "size", "sent", ""), rows, canvas, right=(1, 2))
        if not rows:
            yield "nothing to push"

    return report_of(pushed, text, as_json)


def _sent_words(sent: "Sent") -> str:
    words = ["new" if sent.is_new else "was there"]
    if sent.mended_objects:
        words.append(f"{count(sent.mended_objects, 'object')} mended")
    elif sent.is_completed:
        words.append("completed")
    return ", ".join(words)


def store_verify_command(
    item: Annotated[
        str | None, argument("[ITEM]", "One item: KIND/NAME. The whole store if not given.")
    ] = None,
    place: Place = None,
    discard: Annotated[
        bool, option("--discard", "Remove what is damaged, so that the next push mends it.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Read everything again, and name what is damaged or missing; exit code 1 if anything is."""
    from assay.store.verifying import verify_store

    with working("verifying") as progress:
        verified = verify_store(place, item, discard=discard, progress=progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        if verified.is_verified:
            read = f"{count(verified.objects, 'object')}, {size(verified.bytes)}"
            yield (("verified", styles.GOOD), f"  {count(verified.items, 'item')}, {read}")
            return
        rows = [
            (
                (damage.what, styles.BAD),
                damage.digest[:16],
                damage.reason + (", removed" if damage.is_removed else ""),
                ", ".join(damage.items) or "nothing refers to it",
            )
            for damage in verified.damages
        ]
        yield from table(("not whole", "sha256", "", "needed by"), rows, canvas)

    return report_of(verified, text, as_json)


def store_list_command(
    place: Place = None, kind: Kind = None, limit: Limit = 50, as_json: options.Json = False
) -> Report:
    """List the items of a store, the latest first."""
    from assay.store.questions import list_items

    with working("reading the index") as progress:
        found_items = list_items(place, kind=kind, limit=limit, progress=progress)
    return _found(found_items, as_json)


def store_find_command(
    terms: Annotated[
        list[str] | None,
        argument(
            "[TERM]...",
            "kind=run, model=llama, engine=vllm, accelerator=h200, workload=chat, tag=WORD, name=TEXT, "
            "verdict=improved, since=2026-11-01 or 7d or 90m, until=TIME, sha256=DIGITS of a file, or a "
            "word that any has.",
        ),
    ] = None,
    kind: Kind = None,
    place: Place = None,
    limit: Limit = 50,
    offline: Annotated[
        bool, option("--offline", "Ask the local index as it is, without looking for new items.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Find items by what they are about; all terms must hold.

    model=llama matches what contains it, model==NAME what is it, whatever the case. Times are in
    UTC; until=2026-11-01 has that day too. An accelerator is found by what it calls itself and by
    its name in the catalog: h200_sxm.
    """
    from assay.store.questions import find_items

    with working("reading the index") as progress:
        found_items = find_items(
            terms or (), place, kind=kind, limit=limit, offline=offline, progress=progress
        )
    return _found(found_items, as_json)


def _found(found_items: "Found", as_json: bool) -> Report:
    shown = f"{len(found_items.items):,} of {found_items.total:,} items; --limit 0 lists all"
    cut = shown if len(found_items.items) < found_items.total else None
    return report_of(found_items, lambda canvas: _items(found_items, cut, canvas), as_json)


def _items(answer: "Found", cut: str | None, canvas: Canvas) -> Iterator[Line]:
    rows: list[tuple[Part, ...]] = [
        (
            (item["item"], styles.BAD if item["damage"] or item["unverified"] else styles.NAME),
            item["manifest"][:8],
            when(item["created_at"]),
            size(item["bytes"] or 0),
            " ".join(filter(None, (item["verdict"], _ratio(item["ratio"])))),
            ", ".join(
                str(text)
                for text in (
                    *(item[name] for name in ("model", "engine", "accelerator", "workload")),
                    *item["tags"],
                    "redacted" if item["redacted"] else None,
                    "not verified" if item["unverified"] else None,
                    "damaged" if item["damage"] else None,
                    f"by {item['pushed_by']}" if item["pushed_by"] else None,
                )
                if text
            ),
        )
        for item in answer.items
    ]
    header = ("item", "version", "made (UTC)", "size", "outcome", "about")
    yield from table(header, rows, canvas, right=(3,))
    if not rows:
        yield "nothing matches" if answer.terms else "the store is empty"
    if cut:
        yield ((cut, styles.FAINT),)


def _ratio(ratio: Mapping[str, float] | None) -> str:
    """How many times better a run has made its engine.

    >>> _ratio({"value": 5.5432, "lo": 4.5, "hi": 6.76})
    '5.54x (4.50 to 6.76)'
    """
    if ratio is None:
        return ""
    return f"{ratio['value']:.3g}x ({ratio['lo']:.2f} to {ratio['hi']:.2f})"


def store_tag_command(
    item: ItemName,
    tags: Annotated[list[str], argument("WORD...", "Words to find it by.")],
    remove: Annotated[bool, option("--remove", "Take these words away instead.")] = False,
    place: Place = None,
    as_json: options.Json = False,
) -> Report:
    """Give an item words that it is found by, or take them away; all of its versions have them."""
    from assay.store.tagging import tag_item

    tagged = tag_item(item, () if remove else tags, tags if remove else (), place)
    words = f"{tagged.item}: {', '.join(tagged.tags) or 'no tags'}"
    return report_of(tagged, lambda canvas: [words], as_json)


def store_remove_command(
    item: Annotated[str, argument("ITEM", "An item by its whole name.")],
    place: Place = None,
    as_json: options.Json = False,
) -> Report:
    """Remove an item, all of its versions; gc removes its objects later."""
    from assay.store.finding import remove_item

    removed = remove_item(item, place)
    words = f"removed {removed.item}: {count(len(removed.versions), 'version')}"
    return report_of(removed, lambda canvas: [words], as_json)


def store_key_command(
    path: Annotated[
        Path, argument("FILE", "Where the private key goes; FILE.pub is the public one.")
    ],
    as_json: options.Json = False,
) -> Report:
    """Make a key to sign reports with: Ed25519 in PEM, as openssl genpkey -algorithm ed25519 makes it.

    The private key is readable by its owner alone. Pass the public one on: assay verify-report --key.
    """
    from assay.report.signing import make_key

    made = make_key(path)
    pairs = [("private", made.private), ("public", made.public), ("name", made.fingerprint)]
    return report_of(made, lambda canvas: facts(pairs, canvas), as_json)
