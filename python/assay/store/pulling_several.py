"""`assay store pull --where`: every item that a query finds, each whole or not at all.

An item that is damaged in the store, or whose place is taken, is named and left out, and the others
are pulled; what concerns the store or the disk ends the command, and the same one goes on later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from assay.answers import Answer, Progress, silent
from assay.plurals import count
from assay.store.backend import DamagedError, StoreError
from assay.store.finding import Found, find
from assay.store.layout import Store, open_store
from assay.store.manifest import read_manifest
from assay.store.pulling import (
    AGAIN,
    PlaceTakenError,
    chosen_version,
    pull_version,
    redacted_notes,
    target_of,
    unverified_notes,
)
from assay.store.refs import Ref, versions

Row = Mapping[str, Any]


class PulledItem(NamedTuple):
    """What became of an item, or would."""

    item: str
    manifest: str
    place: str
    files: int | None
    """None where the manifest cannot be read."""
    bytes: int | None
    fetched_bytes: int
    outcome: Literal["pulled", "there", "refused", "wanted", "exists"]
    """`there`: each byte was in its place. A dry run has `wanted`, or `exists` where something is in
    its place, which a pull compares."""
    reason: str | None = None
    """Why it was refused."""
    hint: str | None = None
    """What to do about it."""


@dataclass(frozen=True, kw_only=True)
class PulledItems(Answer):
    """Items of a query, and where they are now."""

    store: str
    terms: Mapping[str, str]
    dry_run: bool
    bytes: int
    fetched_bytes: int
    """Less than `bytes` where files were there already."""
    items: Sequence[PulledItem]


def pull_several(
    items: Sequence[str] = (),
    place: str | None = None,
    *,
    terms: Sequence[str] = (),
    to: Path | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
) -> PulledItems:
    """Fetch the items of these names and those that fulfill the terms, as `find` reads them.

    Each goes to `to`/KIND/NAME, by default to where commands look for its kind. Of an item of which
    several versions match, the one pushed last is fetched.
    """
    store = open_store(place)
    found = find(terms, place, limit=0, progress=progress) if terms else None
    rows = _latest(found.items) if found else {}
    for name in items:
        ref = versions(store, name)[0]
        rows[ref.item] = _row(store, ref)
    pulled: list[PulledItem] = []
    done, total = 0, sum(row["bytes"] or 0 for row in rows.values())
    for number, row in enumerate(rows.values(), start=1):
        start = f"{number:,} of {count(len(rows), 'item')}, {done:,} of {total:,} bytes"

        def progress_of_item(text: str, start: str = start) -> None:
            progress(f"{start}: {text}")

        below = None if to is None else to / row["kind"] / row["name"]
        pulled.append(_pulled(store, row, below, dry_run, progress_of_item))
        done += row["bytes"] or 0
    return PulledItems(
        store=store.name,
        terms=found.terms if found else {},
        dry_run=dry_run,
        bytes=total,
        fetched_bytes=sum(each.fetched_bytes for each in pulled),
        items=pulled,
        notes=[*(_notes(found) if found else ()), *_caveats(pulled, rows)],
        problem=_problem(pulled),
    )


def would_pull(
    item: str, place: str | None = None, *, to: Path | None = None, version: str | None = None
) -> PulledItems:
    """What `pull` of one item would fetch, and to where, as a dry run of several says it."""
    store = open_store(place)
    ref, notes = chosen_version(store, item, version)
    row = _row(store, ref)
    return PulledItems(
        store=store.name,
        terms={},
        dry_run=True,
        bytes=row["bytes"] or 0,
        fetched_bytes=0,
        items=[_pulled(store, row, to, True, silent)],
        notes=[
            *notes,
            *redacted_notes({ref.item: row["redacted"]}),
            *unverified_notes({ref.item: row["unverified"]}),
        ],
    )


def _row(store: Store, ref: Ref) -> Row:
    """An item as `find` lists it, by what the store has now: the index may not know it yet."""
    row = {"item": ref.item, "kind": ref.kind, "name": ref.name, "manifest": ref.manifest}
    try:
        manifest = read_manifest(store, ref.manifest)
    except DamagedError:
        return {**row, "files": None, "bytes": None, "unverified": None, "redacted": None}
    sizes = {"files": len(manifest.files), "bytes": manifest.total_bytes}
    is_redacted = manifest.redaction is not None
    return {**row, **sizes, "unverified": manifest.unverified, "redacted": is_redacted}


def _latest(rows: Sequence[Row]) -> dict[str, Row]:
    """Of the versions of an item the one pushed last, in the order of the query."""
    latest: dict[str, Row] = {}
    for row in rows:
        known = latest.get(row["item"])
        if known is None or row["pushed_at"] > known["pushed_at"]:
            latest[row["item"]] = row
    return latest


def _notes(found: Found) -> Sequence[str]:
    """What a reader must know where nothing matches, and of versions that are not pulled."""
    if not found.items:
        return found.notes
    if not (others := found.total - len({row["item"] for row in found.items})):
        return []
    return [
        f"not pulled: {count(others, 'earlier version')} of these items; assay store find lists "
        "them, and pull ITEM --manifest takes one"
    ]


def _caveats(pulled: Sequence[PulledItem], rows: Mapping[str, Row]) -> list[str]:
    """Which items are redacted copies, and which do not verify."""
    there = [each.item for each in pulled if each.outcome != "refused"]
    return [
        *redacted_notes({item: rows[item]["redacted"] for item in there}),
        *unverified_notes({item: rows[item]["unverified"] for item in there}),
    ]


def _pulled(
    store: Store, row: Row, to: Path | None, dry_run: bool, progress: Progress
) -> PulledItem:
    target = target_of(row["kind"], row["name"], to)
    known = (row["item"], row["manifest"], str(target), row["files"], row["bytes"])
    if dry_run:
        return PulledItem(*known, 0, "exists" if target.exists() else "wanted")
    try:
        pulled = pull_version(store, row["manifest"], to=target, progress=progress)
    except (DamagedError, PlaceTakenError) as error:
        return PulledItem(*known, 0, "refused", error.message, error.hint)
    return PulledItem(*known, pulled.fetched_bytes, "there" if pulled.was_there else "pulled")


def _problem(pulled: Sequence[PulledItem]) -> StoreError | None:
    refused = [each for each in pulled if each.outcome == "refused"]
    if not refused:
        return None
    return StoreError(
        f"{len(refused)} of {count(len(pulled), 'item')} not pulled: {refused[0].reason}",
        f"{refused[0].hint or AGAIN}; the others are not fetched again",
    )
