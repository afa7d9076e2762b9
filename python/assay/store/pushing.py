"""`assay store push`: sends what the store does not have, then says what it is.

Objects come first, then the manifest, then the ref: whatever cuts a push short, nothing refers to
what is not there, and the next push finds what has arrived. An object that is in the store already
is read back before it is relied on, and replaced if it is damaged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.improve.journal.faults import fault_point
from assay.plurals import count, size
from assay.store.backend import StoreError
from assay.store.describing import Item
from assay.store.layout import (
    OBJECT_BYTES,
    Store,
    digest_of,
    manifest_key,
    object_key,
    open_store,
    ref_key,
)
from assay.store.leases import SWEEP_S, leased
from assay.store.manifest import Manifest, StoredFile
from assay.store.pushers import this_pusher
from assay.store.tagging import add_tags, check_tags

_MOST_NAMED: Final = 8
"""Most files that a note names."""
_READABLE: Final = "push it again when nothing writes to it any more"


class Sent(NamedTuple):
    """What became of an item."""

    item: str
    manifest: str
    files: int
    bytes: int
    sent_objects: int
    sent_bytes: int
    mended_objects: int
    """Objects that were damaged in the store and are whole again."""
    is_new: bool
    """Whether the store did not have this version."""
    is_completed: bool
    """Whether the store had it, but not all of it, or not whole."""
    left_out: Sequence[str] = ()
    """Files in the folder of a run that are not the run's."""


class Refused(NamedTuple):
    """A run that was not pushed, and why it does not verify."""

    item: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Pushed(Answer):
    """Items that are in the store now."""

    store: str
    items: Sequence[Sent]
    refused: Sequence[Refused] = ()


def push(
    items: Sequence[Item],
    place: str | None = None,
    *,
    tags: Sequence[str] = (),
    check: bool = True,
    unverified: bool = False,
    progress: Progress = silent,
) -> Pushed:
    """Push items; without `check`, objects that the store has count as whole if their size is right.

    A run that does not verify is left out, unless `unverified`, which marks it as such. Files in the
    folder of a run that are not the run's are left out and named; `Item.with_strays` takes them in.
    """
    check_tags(tags)
    store = open_store(place)
    refused = [] if unverified else [item for item in items if item.unverified]
    sent = [
        push_item(store, item, tags=tags, check=check, progress=progress)
        for item in items
        if item not in refused
    ]
    return Pushed(
        store=store.name,
        items=sent,
        refused=[Refused(f"{item.kind}/{item.name}", item.unverified or "") for item in refused],
        notes=(
            *store.backend.notes,
            *(_left_out(item) for item in items if item.strays and item not in refused),
        ),
        problem=_problem(refused, len(items)),
    )


def _left_out(item: Item) -> str:
    """That files in the folder of a run were not pushed, with the largest first."""
    sizes = {name: path.stat().st_size for name, path in item.strays.items()}
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    listed = ", ".join(f"{name} ({size(sizes[name])})" for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return (
        f"{item.kind}/{item.name}: left out {count(len(names), 'file')} that the run did not write: "
        f"{listed}{more}; --strays pushes all"
    )


def _problem(refused: Sequence[Item], number: int) -> InputError | None:
    if not refused:
        return None
    first = refused[0]
    reason = f"{first.kind} {first.name} does not verify: {first.unverified}"
    return InputError(
        f"{len(refused)} of {count(number, 'item')} not pushed: {reason}",
        "assay verify-report lists what failed; --unverified pushes it, marked as not verified",
    )


def push_item(
    store: Store,
    item: Item,
    *,
    tags: Sequence[str] = (),
    check: bool = True,
    progress: Progress = silent,
    wait_s: float = SWEEP_S,
) -> Sent:
    """Push one item; when this returns, the store has all of it."""
    manifest = manifest_of(item, progress)
    content = manifest.content()
    digest = digest_of(content)
    sent_objects = sent_bytes = mended = done = 0
    with leased(store, manifest, progress, wait_s) as renew:
        seen: set[str] = set()
        for path, file in zip(item.files.values(), manifest.files, strict=True):
            for number, own in enumerate(file.objects):
                renew()
                if own in seen:
                    continue
                seen.add(own)
                nbytes = min(OBJECT_BYTES, file.size - number * OBJECT_BYTES)
                outcome = _send(store, path, number, own, nbytes, check)
                sent_objects += outcome != "there"
                mended += outcome == "mended"
                sent_bytes += nbytes if outcome != "there" else 0
                done += nbytes
                progress(f"{manifest.item}: {done:,} of {manifest.total_bytes:,} bytes")
                fault_point("store.object")
        is_manifest_sent = store.backend.create(manifest_key(digest), content)
        if not is_manifest_sent and store.backend.read(manifest_key(digest)) != content:
            store.backend.replace(manifest_key(digest), content)
            is_manifest_sent = True
        fault_point("store.manifest")
        # A copy without names has none of who made it either.
        pusher = b"" if manifest.redaction else this_pusher().encode()
        is_new = store.backend.create(ref_key(manifest.kind, manifest.name, digest), pusher)
        fault_point("store.ref")
        add_tags(store, manifest.kind, manifest.name, tags)
    return Sent(
        manifest.item,
        digest,
        len(manifest.files),
        manifest.total_bytes,
        sent_objects,
        sent_bytes,
        mended,
        is_new,
        not is_new and (sent_objects > 0 or is_manifest_sent),
        sorted(item.strays),
    )


def manifest_of(item: Item, progress: Progress = silent) -> Manifest:
    """Hash the files of an item."""
    files = []
    for name, path in item.files.items():
        progress(f"{item.kind}/{item.name}: hashing {name}")
        files.append(_hashed(name, path))
    return Manifest(
        kind=item.kind,
        name=item.name,
        created_at=item.created_at,
        files=tuple(files),
        taxonomy=item.taxonomy,
        is_file=item.is_file,
        outcome=item.outcome,
        redaction=item.redaction,
        unverified=item.unverified,
    )


def _hashed(name: str, path: Path) -> StoredFile:
    whole, objects, size = hashlib.sha256(), [], 0
    for part in _parts(path):
        whole.update(part)
        objects.append(digest_of(part))
        size += len(part)
    return StoredFile(name, size, whole.hexdigest(), tuple(objects))


def _parts(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while part := file.read(OBJECT_BYTES):
                yield part
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _send(store: Store, path: Path, number: int, digest: str, size: int, check: bool) -> str:
    """Make the store have an object: `there` already, `sent`, or `mended`."""
    key = object_key(digest)
    entry = store.backend.entry(key)
    if entry is not None and entry.size == size:
        if not check:
            return "there"
        content = store.backend.read(key)
        if content is not None and digest_of(content) == digest:
            return "there"
    part = _part(path, number, digest)
    if entry is not None:
        store.backend.replace(key, part)
        return "mended"
    if store.backend.create(key, part):
        return "sent"
    # Another writer was faster; what it wrote is looked at like anything that was there.
    content = store.backend.read(key)
    if content is None or digest_of(content) != digest:
        store.backend.replace(key, part)
        return "mended"
    return "there"


def _part(path: Path, number: int, digest: str) -> bytes:
    """A part of a file, which must still be what was hashed."""
    try:
        with path.open("rb") as file:
            file.seek(number * OBJECT_BYTES)
            part = file.read(OBJECT_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if digest_of(part) != digest:
        raise StoreError(f"{path} changed while it was pushed", _READABLE)
    return part
