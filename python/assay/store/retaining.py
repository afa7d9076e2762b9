"""Which versions a retention policy lets go: `assay store gc --keep-last N --older-than 90d --where ...`.

A version goes when it fulfills every part of the policy that is given. It stays, whatever its age, where
somebody vouches for it or something that stays leads to it: its item is tagged `keep`, its report is
signed, a redacted copy states the hashes of its files, or a push of its item is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.errors import InputError
from assay.report.run_files import SIGNATURE
from assay.store.manifest import TAXONOMY, Manifest, StoredFile
from assay.store.refs import Ref
from assay.store.tagging import KEEP, Tag


@dataclass(frozen=True, slots=True)
class Policy:
    """What may go; `keep_last` or `older_than_s` is given."""

    keep_last: int | None = None
    """As many versions stay of each kind, model, engine, accelerator and workload, the latest made."""
    older_than_s: float | None = None
    """What was made or pushed in these seconds stays."""
    terms: Sequence[str] = ()
    """What does not fulfill all of these stays, as `find` reads them."""

    def __post_init__(self) -> None:
        if self.keep_last is None and self.older_than_s is None:
            raise InputError(
                "expected --keep-last or --older-than beside --where, got neither",
                "assay store remove removes an item by its name",
            )
        if self.keep_last is not None and self.keep_last < 0:
            raise InputError(
                f"--keep-last: expected a whole number >= 0, got {self.keep_last}",
                "--keep-last 5 keeps the last five of each model, engine, accelerator and workload",
            )


class Spared(NamedTuple):
    """A version that the policy would let go, and why it stays."""

    item: str
    manifest: str
    reason: str


class Retention(NamedTuple):
    """What a policy comes to."""

    expired: Sequence[Ref]
    spared: Sequence[Spared]


def retention(
    policy: Policy,
    manifests: Mapping[Ref, Manifest],
    matching: Iterable[str],
    tags: Iterable[Tag],
    pushed: Sequence[Manifest],
    now: float,
    is_signed: Callable[[StoredFile], bool],
) -> Retention:
    """The versions that go, of all in the store.

    `matching` are the manifests that fulfill the terms, `pushed` those of pushes under way;
    `is_signed` says whether a report.sig is one.
    """
    expired = _expired(policy, manifests, set(matching), now)
    kept_items = {(tag.kind, tag.name) for tag in tags if tag.tag == KEEP}
    pushed_items = {(manifest.kind, manifest.name) for manifest in pushed}
    spared: dict[Ref, str] = {}
    for ref in expired:
        if (ref.kind, ref.name) in kept_items:
            spared[ref] = f"tagged {KEEP}"
        elif any(file.path == SIGNATURE and is_signed(file) for file in manifests[ref].files):
            spared[ref] = "its report is signed"
        elif (ref.kind, ref.name) in pushed_items:
            spared[ref] = "a push of it is under way"
    gone = [ref for ref in expired if ref not in spared]
    # One that is spared may be a redacted copy itself, so what it states is looked at too.
    while originals := _originals(manifests, gone, pushed):
        spared |= dict.fromkeys(originals, "a redacted copy states its hashes")
        gone = [ref for ref in gone if ref not in spared]
    return Retention(
        gone, [Spared(ref.item, ref.manifest, reason) for ref, reason in spared.items()]
    )


def _expired(
    policy: Policy, manifests: Mapping[Ref, Manifest], matching: set[str], now: float
) -> list[Ref]:
    groups: dict[tuple[str | None, ...], list[Ref]] = {}
    for ref, manifest in manifests.items():
        if ref.manifest in matching:
            about = (manifest.taxonomy.get(name) for name in TAXONOMY)
            groups.setdefault((ref.kind, *about), []).append(ref)
    expired = []
    for group in groups.values():
        group.sort(key=lambda ref: (manifests[ref].created_at, ref.pushed_at), reverse=True)
        for ref in group[policy.keep_last or 0 :]:
            age_s = now - max(manifests[ref].created_at, ref.pushed_at)
            if policy.older_than_s is None or age_s >= policy.older_than_s:
                expired.append(ref)
    return expired


def _originals(
    manifests: Mapping[Ref, Manifest], gone: Sequence[Ref], pushed: Sequence[Manifest]
) -> list[Ref]:
    """Versions among those that go of which a copy that stays, or comes, is a redaction."""
    leaving = set(gone)
    staying = (manifest for ref, manifest in manifests.items() if ref not in leaving)
    stated = [files for manifest in (*staying, *pushed) if (files := _stated(manifest))]
    return [
        ref
        for ref in gone
        if any(
            files <= {(file.path, file.sha256) for file in manifests[ref].files} for files in stated
        )
    ]


def _stated(manifest: Manifest) -> set[tuple[str, str]]:
    """The files that a redacted copy was made from, with their hashes."""
    files = (manifest.redaction or {}).get("files")
    if not isinstance(files, dict):
        return set()
    return {(path, digest) for path, digest in files.items() if isinstance(digest, str)}
