"""`assay store gc`: removes what nothing refers to and no push is about to refer to (`leases.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.improve.journal.faults import fault_point
from assay.store.backend import Entry, StoreError
from assay.store.folder import TEMPORARY
from assay.store.layout import (
    MANIFESTS,
    OBJECTS,
    SWEEPS,
    Store,
    digest_of,
    manifest_key,
    object_key,
    open_store,
)
from assay.store.leases import LEASE_S, SWEEP_S, Sweep, live_leases
from assay.store.manifest import read_manifest
from assay.store.refs import refs
from assay.store.tagging import all_tags, tag_key

GRACE_S: Final = 86_400.0
"""Garbage is as old as this before it is removed: a push that was cut short can go on until then."""


@dataclass(frozen=True, kw_only=True)
class Collected(Answer):
    """What was removed, or would be."""

    store: str
    dry_run: bool
    objects: int
    manifests: int
    leftovers: int
    """Unfinished files and leases of processes that have died."""
    bytes: int
    kept_for_pushes: int
    """Objects that nothing refers to but a push under way."""
    waiting: int
    """Objects that nothing refers to, younger than the grace period."""
    waiting_bytes: int


def collect(
    place: str | None = None,
    *,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Collected:
    """Remove garbage that is older than the grace period by the clock of the store."""
    if grace_s < 0:
        raise InputError(f"--grace: expected a time of 0 s or more, got {grace_s:g} s")
    store = open_store(place)
    removed: dict[str, Entry] = {}
    kept, young = 0, list[Entry]()
    while True:
        sweep = Sweep(store)
        try:
            garbage, kept, young = _garbage(store, sweep.now, grace_s)
            removed |= {entry.key: entry for entry in garbage}
            for number, entry in enumerate(garbage):
                if dry_run or sweep.is_over:
                    break
                store.backend.remove(entry.key)
                progress(f"removed {number + 1:,} of {len(garbage):,}")
                fault_point("store.removed")
            else:
                break
        finally:
            sweep.end()
        if dry_run:
            break
    return Collected(
        store=store.name,
        dry_run=dry_run,
        objects=sum(key.startswith(OBJECTS) for key in removed),
        manifests=sum(key.startswith(MANIFESTS) for key in removed),
        leftovers=sum(not key.startswith((OBJECTS, MANIFESTS)) for key in removed),
        bytes=sum(entry.size for entry in removed.values()),
        kept_for_pushes=kept,
        waiting=len(young),
        waiting_bytes=sum(entry.size for entry in young),
    )


def _garbage(store: Store, now: float, grace_s: float) -> tuple[Sequence[Entry], int, list[Entry]]:
    """What may be removed under a marker that was written before, what pushes keep, what is too young."""
    # Leases before refs: a push that ends in between has its ref by then.
    pushed, expired = live_leases(store, now)
    leased = {manifest_key(digest_of(manifest.content())) for manifest in pushed}
    leased |= {object_key(digest) for manifest in pushed for digest, _ in manifest.objects()}
    named: set[str] = set()
    # Tags before refs: one that a push has just given has its ref by then.
    tags = set(all_tags(store))
    known = list(refs(store))
    items = {(ref.kind, ref.name) for ref in known}
    items |= {(manifest.kind, manifest.name) for manifest in pushed}
    strays = [Entry(tag_key(*tag), 0, now) for tag in tags if (tag.kind, tag.name) not in items]
    for digest in {ref.manifest for ref in known}:
        try:
            manifest = read_manifest(store, digest)
        except StoreError as error:
            # What a manifest that cannot be read refers to is unknown, so nothing is garbage.
            raise StoreError(
                f"nothing is removed: {error.message}",
                "assay store verify names the item; push it again, or assay store remove it",
            ) from None
        named.add(manifest_key(digest))
        named |= {object_key(own) for own, _ in manifest.objects()}
    unnamed = [
        entry
        for prefix in (OBJECTS, MANIFESTS)
        for entry in store.backend.entries(prefix)
        if entry.key not in named
    ]
    # Times may be whole seconds, so an object may seem to be of the future.
    old = [entry for entry in unnamed if max(now - entry.modified, 0.0) >= grace_s]
    garbage = [entry for entry in old if entry.key not in leased]
    removable = [*garbage, *expired, *strays, *_leftovers(store, now, grace_s)]
    aged = {entry.key for entry in old}
    young = [
        entry
        for entry in unnamed
        if entry.key not in aged and entry.key not in leased and entry.key.startswith(OBJECTS)
    ]
    return removable, len(old) - len(garbage), young


def _leftovers(store: Store, now: float, grace_s: float) -> Iterator[Entry]:
    """What processes that have died were writing, whatever the grace period is."""
    for entry in store.backend.entries(TEMPORARY):
        if now - entry.modified >= max(grace_s, LEASE_S):
            yield entry
    for entry in store.backend.entries(SWEEPS):
        if now - entry.modified >= SWEEP_S:
            yield entry
