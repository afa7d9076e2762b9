"""`assay store verify`: reads every byte again, and names what is damaged or missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.answers import Answer, Progress, silent
from assay.errors import CheckFailedError
from assay.plurals import count
from assay.store.backend import StoreError
from assay.store.layout import OBJECTS, Store, digest_of, manifest_key, object_key, open_store
from assay.store.manifest import Manifest, read_manifest
from assay.store.refs import Ref, refs, versions

_EVERY: Final = 200
"""Objects between two words of progress."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not what it was."""

    what: str
    """object or manifest."""
    digest: str
    reason: str
    """damaged or missing."""
    items: Sequence[str]
    """The items that need it; none where nothing refers to it."""
    is_removed: bool = False


@dataclass(frozen=True, kw_only=True)
class StoreVerification(Answer):
    """What was read, and what does not hold."""

    store: str
    items: int
    objects: int
    bytes: int
    damages: Sequence[Damage]

    @property
    def is_verified(self) -> bool:
        """Whether everything holds."""
        return not self.damages


def verify_store(
    place: str | None = None,
    item: str | None = None,
    *,
    discard: bool = False,
    progress: Progress = silent,
) -> StoreVerification:
    """Check the whole store, or one item; `discard` removes what is damaged, so that a push mends it."""
    store = open_store(place)
    chosen = versions(store, item) if item else list(refs(store))
    manifests, damages = _manifests(store, chosen)
    needed: dict[str, list[str]] = {}
    for manifest in manifests.values():
        for digest, _ in manifest.objects():
            needed.setdefault(digest, []).append(manifest.item)
    listed = set(needed) if item else {*needed, *_listed(store)}
    read_bytes = 0
    for number, digest in enumerate(sorted(listed)):
        content = store.backend.read(object_key(digest))
        read_bytes += len(content or b"")
        if content is None or digest_of(content) != digest:
            if content is None and digest not in needed:
                # Removed since it was listed, as garbage is.
                continue
            reason = "missing" if content is None else "damaged"
            damages.append(Damage("object", digest, reason, sorted(set(needed.get(digest, ())))))
        if number % _EVERY == 0:
            progress(f"verified {number:,} of {count(len(listed), 'object')}")
    if discard:
        damages = [_discarded(store, damage) for damage in damages]
    problem = None
    if damages:
        problem = CheckFailedError(
            f"store {store.name} is not whole: {count(len(damages), 'object')} damaged or missing",
            "push the items again from where they are whole"
            + ("" if discard else "; --discard removes what is damaged"),
        )
    return StoreVerification(
        store=store.name,
        items=len({ref.item for ref in chosen}),
        objects=len(listed),
        bytes=read_bytes,
        damages=damages,
        problem=problem,
    )


def _manifests(store: Store, chosen: Sequence[Ref]) -> tuple[Mapping[str, Manifest], list[Damage]]:
    manifests: dict[str, Manifest] = {}
    damages: dict[str, Damage] = {}
    for ref in chosen:
        try:
            manifests[ref.manifest] = read_manifest(store, ref.manifest)
        except StoreError as error:
            reason = "missing" if "missing" in error.message else "damaged"
            damages[ref.manifest] = Damage("manifest", ref.manifest, reason, [ref.item])
    return manifests, list(damages.values())


def _listed(store: Store) -> set[str]:
    return {entry.key.rpartition("/")[2] for entry in store.backend.entries(OBJECTS)}


def _discarded(store: Store, damage: Damage) -> Damage:
    if damage.reason == "missing":
        return damage
    key = manifest_key if damage.what == "manifest" else object_key
    store.backend.remove(key(damage.digest))
    return replace(damage, is_removed=True)
