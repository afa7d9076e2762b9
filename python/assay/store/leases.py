"""Why a removal of garbage never takes what a push is about to refer to.

A push that finds an object in the store does not send it, and refers to it later: an object that
nothing refers to yet may be needed in a moment. Both sides first say what they do and then look at
the other, as in Dekker's mutual exclusion; a store shows a write to every later read, so at least one
sees the other:

- A push writes its lease (its manifest, under `pushes/`), then looks for sweeps, and waits for
  those under way to end before it looks for objects.
- A sweep writes its marker under `sweeps/`, then reads leases and refs, and spares what they name.

Leases are renewed while a push goes on and expire when its process has died, on the machine of that
process at once (`lease_locks.py`); the marker of a sweep whose process has died expires too, and a
sweep removes nothing once half of that time has passed. All ages are by the clock of the store.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.answers import Progress
from assay.improve.journal.faults import fault_point
from assay.plurals import count
from assay.store.backend import Entry, StoreError
from assay.store.layout import PUSHES, SWEEPS, Store
from assay.store.lease_locks import dead, forget, is_dead, locked
from assay.store.manifest import Manifest, parse

LEASE_S: Final = 3600.0
"""After so long without renewal a push is dead."""
RENEWAL_S: Final = 600.0
SWEEP_S: Final = 600.0
"""After so long a sweep is dead."""
_LOOK_S: Final = 0.5


@contextmanager
def leased(
    store: Store, manifest: Manifest, progress: Progress, wait_s: float
) -> Iterator[Callable[[], None]]:
    """A block in which no sweep removes objects of a manifest; calling its value now and then renews it."""
    name = secrets.token_hex(16)
    key = f"{PUSHES}{name}"
    content = manifest.content()
    renewed_s = time.monotonic()

    def renew() -> None:
        nonlocal renewed_s
        if time.monotonic() - renewed_s > RENEWAL_S:
            store.backend.replace(key, content)
            renewed_s = time.monotonic()

    with locked(store.id, name):
        store.backend.replace(key, content)
        fault_point("store.leased")
        try:
            _wait_for_sweeps(store, key, progress, wait_s)
            _release_dead(store)
            yield renew
        finally:
            # Of an error too: a lease without a push would hold garbage for an hour.
            if _remove_quietly(store, key):
                forget(store.id, name)


def _release_dead(store: Store) -> None:
    """Remove what killed pushes of this machine have left: what goes on has a lease of its own by now."""
    for name in dead(store.id):
        if _remove_quietly(store, f"{PUSHES}{name}"):
            forget(store.id, name)


def _wait_for_sweeps(store: Store, lease: str, progress: Progress, wait_s: float) -> None:
    own = store.backend.entry(lease)
    if own is None:
        raise StoreError(f"store {store.name}: what was written is not there")
    begun_s = time.monotonic()
    end_s = begun_s + wait_s
    while under_way := _live_sweeps(store, own.modified + time.monotonic() - begun_s):
        if time.monotonic() >= end_s:
            raise StoreError(
                f"store {store.name} is being swept: {count(under_way, 'removal')} under way",
                f"try again in a while; one whose process has died counts for {SWEEP_S:.0f} s",
            )
        progress(f"waiting for a removal of garbage in {store.name}")
        time.sleep(_LOOK_S)


def _live_sweeps(store: Store, now: float) -> int:
    return sum(now - sweep.modified < SWEEP_S for sweep in store.backend.entries(SWEEPS))


class PushUnderWay(NamedTuple):
    """A push that has not ended, or was cut short on a machine that cannot be asked."""

    item: str
    bytes: int
    renewed_at: float
    """When it was last heard of, by the clock of the store."""
    until: float
    """When it counts as dead, unless it is heard of again; until then `gc` keeps what it needs."""
    marker: str
    """The key of its lease: once that object is removed, nothing is kept for it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A push under way, or one that was cut short on another machine."""

    key: str
    manifest: Manifest
    renewed_at: float
    """When the push was last heard of, by the clock of the store."""

    def under_way(self, nbytes: int) -> PushUnderWay:
        """The push as answers list it."""
        until = self.renewed_at + LEASE_S
        return PushUnderWay(self.manifest.item, nbytes, self.renewed_at, until, self.key)


def leases(store: Store, now: float | None = None) -> tuple[list[Lease], list[Entry]]:
    """The leases of pushes under way, and those of processes of this machine that have ended.

    With `now`, the time by the clock of the store, those that have expired by it are among the latter.
    """
    live, ended = [], []
    for entry in list(store.backend.entries(PUSHES)):
        has_expired = now is not None and now - entry.modified > LEASE_S
        if has_expired or is_dead(store.id, entry.key.removeprefix(PUSHES)):
            ended.append(entry)
        elif (content := store.backend.read(entry.key)) is not None:
            manifest = parse(content, f"store {store.name}: lease {entry.key}")
            live.append(Lease(entry.key, manifest, entry.modified))
    return live, ended


class Sweep:
    """The marker of a removal; it holds for `SWEEP_S`, and is used for half of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = f"{SWEEPS}{secrets.token_hex(16)}"
        self._begun_s = time.monotonic()
        store.backend.replace(self._key, b"")
        fault_point("store.sweeping")
        entry = store.backend.entry(self._key)
        if entry is None:
            raise StoreError(f"store {store.name}: what was written is not there")
        self.now = entry.modified
        """The time by the clock of the store."""

    @property
    def is_over(self) -> bool:
        """Whether nothing may be removed under this marker any more."""
        return time.monotonic() - self._begun_s > SWEEP_S / 2

    def end(self) -> None:
        """Let pushes go on."""
        _remove_quietly(self._store, self._key)


def _remove_quietly(store: Store, key: str) -> bool:
    """Remove a marker; where that fails it expires by itself."""
    try:
        store.backend.remove(key)
    except StoreError:
        return False
    return True
