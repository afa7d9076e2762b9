"""`assay store gc`: removes what nothing refers to and no push is about to refer to (`leases.py`).

What a retention policy lets go (`retaining.py`) goes under the same marker, its ref first: a push of it
either has its lease before, and it stays, or waits, and sends it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.improve.journal.faults import fault_point
from assay.report.signing import is_signature
from assay.store.backend import Entry, StoreError
from assay.store.finding import find
from assay.store.folder import TEMPORARY
from assay.store.layout import (
    MANIFESTS,
    OBJECTS,
    REFS,
    SWEEPS,
    Store,
    digest_of,
    manifest_key,
    object_key,
    open_store,
    ref_key,
)
from assay.store.leases import LEASE_S, SWEEP_S, Lease, PushUnderWay, Sweep, leases
from assay.store.manifest import Manifest, StoredFile, read_manifest
from assay.store.refs import Ref, refs
from assay.store.retaining import Policy, Retention, Spared, retention
from assay.store.tagging import all_tags, tag_key

GRACE_S: Final = 86_400.0
"""Garbage is as old as this before it is removed: a push that was cut short can go on until then."""


class Expired(NamedTuple):
    """A version that a retention policy removed, or would."""

    item: str
    manifest: str
    created_at: float
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Collected(Answer):
    """What was removed, or would be."""

    store: str
    dry_run: bool
    objects: int
    manifests: int
    leftovers: int
    """Unfinished files and markers of processes that have died, and tags of items that are gone."""
    bytes: int
    kept_for_pushes: int
    """Objects and manifests older than the grace period that nothing refers to but a push under way."""
    waiting: int
    """Objects that nothing refers to, younger than the grace period."""
    waiting_bytes: int
    expired: Sequence[Expired] = ()
    """Versions that the policy let go; what other versions share with them stays."""
    spared: Sequence[Spared] = ()
    """Versions that the policy would have let go."""
    pushes: Sequence[PushUnderWay] = ()
    """Those under way or cut short on another machine, with the bytes that are kept for each."""


class _Garbage(NamedTuple):
    """What may be removed under a marker that was written before."""

    removable: Sequence[Entry]
    """In this order: refs before what they lead to."""
    expired: Mapping[str, Expired]
    """By the key of the ref."""
    spared: Sequence[Spared]
    kept_for_pushes: int
    young: Sequence[Entry]
    held: Sequence[PushUnderWay]


def collect(
    place: str | None = None,
    *,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
    policy: Policy | None = None,
    progress: Progress = silent,
) -> Collected:
    """Remove garbage that is older than the grace period by the clock of the store.

    What a policy lets go becomes garbage first.
    """
    if grace_s < 0:
        raise InputError(f"--grace: expected a time of 0 s or more, got {grace_s:g} s")
    store = open_store(place)
    matching, notes = _matching(policy, place, progress)
    removed: dict[str, Entry] = {}
    expired: dict[str, Expired] = {}
    known: dict[str, Manifest] = {}
    # Most of the time of a look, which is not to be spent under a marker.
    _manifests(store, known)
    while True:
        sweep = Sweep(store)
        try:
            garbage = _garbage(store, sweep.now, grace_s, policy, matching, known)
            removed |= {entry.key: entry for entry in garbage.removable}
            expired |= garbage.expired
            for number, entry in enumerate(garbage.removable):
                if dry_run:
                    break
                if sweep.is_over:
                    if number:
                        break
                    raise StoreError(
                        f"store {store.name}: a look at what it holds took longer than "
                        f"{SWEEP_S / 2:g} s, after which nothing may be removed",
                        "run assay store gc nearer to the store: on its machine, or in its region",
                    )
                store.backend.remove(entry.key)
                progress(f"removed {number + 1:,} of {len(garbage.removable):,}")
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
        leftovers=sum(not key.startswith((OBJECTS, MANIFESTS, REFS)) for key in removed),
        bytes=sum(entry.size for entry in removed.values()),
        kept_for_pushes=garbage.kept_for_pushes,
        waiting=len(garbage.young),
        waiting_bytes=sum(entry.size for entry in garbage.young),
        expired=list(expired.values()),
        spared=garbage.spared,
        pushes=garbage.held,
        notes=notes,
    )


def _matching(
    policy: Policy | None, place: str | None, progress: Progress
) -> tuple[set[str], Sequence[str]]:
    """The manifests that the terms of a policy find, and what to say where they find none.

    What is pushed later is not among them.
    """
    if policy is None:
        return set(), ()
    found = find(policy.terms, place, limit=0, progress=progress)
    return {item["manifest"] for item in found.items}, () if found.items else found.notes


def _garbage(
    store: Store, now: float, grace_s: float, policy: Policy | None, matching: Set[str],
    known: dict[str, Manifest],
) -> _Garbage:  # fmt: skip
    # Leases before refs: a push that ends in between has its ref by then.
    live, ended = leases(store, now)
    pushed = [lease.manifest for lease in live]
    leased = {manifest_key(digest_of(manifest.content())) for manifest in pushed}
    leased |= {object_key(digest) for manifest in pushed for digest, _ in manifest.objects()}
    # Tags before refs: one that a push has just given has its ref by then.
    tags = set(all_tags(store))
    manifests = _manifests(store, known)
    gone, spared = Retention((), ())
    if policy is not None:
        gone, spared = retention(
            policy, manifests, matching, tags, pushed, now, lambda file: _is_signed(store, file)
        )
    expired = {
        ref_key(ref.kind, ref.name, ref.manifest): Expired(
            ref.item, ref.manifest, manifests[ref].created_at, manifests[ref].total_bytes
        )
        for ref in gone
    }
    kept = {ref: manifest for ref, manifest in manifests.items() if ref not in set(gone)}
    items = {(ref.kind, ref.name) for ref in kept}
    items |= {(manifest.kind, manifest.name) for manifest in pushed}
    strays = [Entry(tag_key(*tag), 0, now) for tag in tags if (tag.kind, tag.name) not in items]
    named: set[str] = set()
    for ref, manifest in kept.items():
        named.add(manifest_key(ref.manifest))
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
    aged = {entry.key for entry in old}
    young = [
        entry
        for entry in unnamed
        if entry.key not in aged and entry.key not in leased and entry.key.startswith(OBJECTS)
    ]
    refs_gone = [Entry(key, 0, now) for key in expired]
    leftovers = _leftovers(store, now, grace_s)
    return _Garbage(
        [*refs_gone, *garbage, *ended, *strays, *leftovers],
        expired,
        spared,
        len(old) - len(garbage),
        young,
        [_held(lease, unnamed) for lease in live],
    )


def _held(lease: Lease, unnamed: Sequence[Entry]) -> PushUnderWay:
    """A push with the bytes that are kept for it alone."""
    own = {object_key(digest) for digest, _ in lease.manifest.objects()}
    return lease.under_way(sum(entry.size for entry in unnamed if entry.key in own))


def _is_signed(store: Store, file: StoredFile) -> bool:
    """Whether a report.sig has signatures; one that cannot be read may have had some."""
    parts = [store.backend.read(object_key(digest)) for digest in file.objects]
    content = b"".join(part or b"" for part in parts)
    return digest_of(content) != file.sha256 or is_signature(content)


def _manifests(store: Store, known: dict[str, Manifest]) -> dict[Ref, Manifest]:
    """The manifest of every ref: what one that cannot be read refers to is unknown.

    Those that are read become known by their digests, under which nothing else is ever stored.
    """
    manifests: dict[Ref, Manifest] = {}
    for ref in refs(store):
        try:
            manifest = known.get(ref.manifest) or read_manifest(store, ref.manifest)
        except StoreError as error:
            raise StoreError(
                f"nothing is removed: {error.message}",
                "assay store verify names the item; push it again, or assay store remove it",
            ) from None
        known[ref.manifest] = manifests[ref] = manifest
    return manifests


def _leftovers(store: Store, now: float, grace_s: float) -> Iterator[Entry]:
    """What processes that have died were writing, whatever the grace period is."""
    for entry in store.backend.entries(TEMPORARY):
        if now - entry.modified >= max(grace_s, LEASE_S):
            yield entry
    for entry in store.backend.entries(SWEEPS):
        if now - entry.modified >= SWEEP_S:
            yield entry
