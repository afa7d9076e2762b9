"""`assay store pull`: an item back on this machine, whole and as it was pushed, or not at all.

Every object is hashed as it arrives, and every file again when it is complete. Files are written
aside, to a hidden folder that is named for the manifest: a pull that was cut short goes on there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from assay import paths
from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.improve.journal import run_folder
from assay.improve.journal.faults import fault_point
from assay.improve.journal.journal import sync_folder
from assay.observe import store as traces
from assay.observe.telemetry.sinks import parquet as telemetry
from assay.store.backend import DamagedError, StoreError, write_hint
from assay.store.layout import Store, digest_of, object_key, open_store
from assay.store.manifest import Manifest, StoredFile, read_manifest
from assay.store.refs import Ref, versions

AGAIN: Final = "assay store verify says more; pushing the item again mends it"


class PlaceTakenError(InputError):
    """Something else is where an item would go, or another pull is writing it."""


@dataclass(frozen=True, kw_only=True)
class Pulled(Answer):
    """Where an item is now."""

    store: str
    item: str
    manifest: str
    place: str
    files: int
    bytes: int
    fetched_bytes: int
    """Less than `bytes` where files were there already."""
    was_there: bool
    """Whether all of it was in its place, each byte as it was pushed."""


def pull(
    item: str,
    place: str | None = None,
    *,
    to: Path | None = None,
    version: str | None = None,
    progress: Progress = silent,
) -> Pulled:
    """Fetch an item; `to` is where it goes, by default where commands look for its kind."""
    store = open_store(place)
    ref, notes = chosen_version(store, item, version)
    pulled = pull_version(store, ref.manifest, to=to, progress=progress)
    return replace(pulled, notes=[*notes, *pulled.notes])


def chosen_version(store: Store, item: str, version: str | None) -> tuple[Ref, list[str]]:
    """The version of an item that a pull fetches, by default the one pushed last; what to say of the others."""
    known = versions(store, item)
    chosen = [ref for ref in known if ref.manifest.startswith(version or "")]
    if not chosen:
        raise InputError(
            f'{item}: no version "{version}"',
            f"one of: {', '.join(r.manifest[:12] for r in known)}",
        )
    if version is None and len(known) > 1:
        said = f"{len(known)} versions of {item} are stored; this is the one pushed last"
        return chosen[0], [said, *_original_notes(store, known)]
    return chosen[0], []


def _original_notes(store: Store, known: Sequence[Ref]) -> list[str]:
    """Where the one pushed last is a redacted copy, how to get the last that is none."""
    is_redacted = {}
    for ref in known:
        try:
            is_redacted[ref.manifest] = read_manifest(store, ref.manifest).redaction is not None
        except DamagedError:
            # A pull of it says so; it is nothing to offer instead.
            continue
    whole = [digest for digest, redacted in is_redacted.items() if not redacted]
    if not whole or not is_redacted.get(known[0].manifest):
        return []
    return [f"one with prompts and names is stored too: --manifest {whole[0][:12]}"]


def pull_version(
    store: Store, digest: str, *, to: Path | None = None, progress: Progress = silent
) -> Pulled:
    """Fetch what a manifest lists."""
    manifest = read_manifest(store, digest)
    target = target_of(manifest.kind, manifest.name, to)
    was_there = _is_there(manifest, target)
    fetched = 0 if was_there else _fetch(store, manifest, digest, target, progress)
    return Pulled(
        store=store.name,
        item=manifest.item,
        manifest=digest,
        place=str(target),
        files=len(manifest.files),
        bytes=manifest.total_bytes,
        fetched_bytes=fetched,
        was_there=was_there,
        notes=[
            *redacted_notes({manifest.item: manifest.redaction is not None}),
            *unverified_notes({manifest.item: manifest.unverified}),
        ],
    )


def redacted_notes(items: Mapping[str, bool | None]) -> list[str]:
    """What a reader must know of items that are not what was measured, but copies of it."""
    return [
        f"{item} is a redacted copy: without prompts, paths and names of hosts, users and processes"
        for item, is_redacted in items.items()
        if is_redacted
    ]


def unverified_notes(reasons: Mapping[str, str | None]) -> list[str]:
    """What a reader must know of items that were pushed although they do not verify."""
    return [
        f"{item} was pushed as not verified: {reason}" for item, reason in reasons.items() if reason
    ]


def target_of(kind: str, name: str, to: Path | None) -> Path:
    """Where an item goes: `to`, by default where commands look for its kind."""
    return place_of(kind, name) if to is None else to.expanduser()


def place_of(kind: str, name: str) -> Path:
    """Where commands look for an item; a result has no such place and goes to the current folder."""
    if kind == "run":
        return run_folder.runs_folder() / name
    if kind == "trace":
        return traces.folder() / name
    if kind == "telemetry":
        return telemetry.folder() / name
    if kind == "calibration":
        return paths.cache("calibration") / name
    return Path(name)


def _is_there(manifest: Manifest, target: Path) -> bool:
    """Whether an item is in its place; raises where something else is."""
    if not target.exists() and not target.is_symlink():
        return False
    if not _is_same(manifest, target):
        raise PlaceTakenError(
            f"{target} exists and is not {manifest.item} as it was pushed",
            "name another place with --to, or move it away",
        )
    return True


def _fetch(store: Store, manifest: Manifest, digest: str, target: Path, progress: Progress) -> int:
    staging = target.with_name(f".{target.name}.{digest[:12]}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir(exist_ok=True)
        with _alone(staging):
            fetched = 0
            for file in manifest.files:
                fetched += _fetch_file(store, manifest, file, staging / file.path)
                progress(f"{manifest.item}: {file.path}")
                fault_point("store.pulled")
            _drop_others(manifest, staging)
            _name(staging, target, manifest)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{target} cannot be written: {reason}", write_hint(error)) from None
    return fetched


@contextmanager
def _alone(staging: Path) -> Iterator[None]:
    """A block that one process at a time is in."""
    handle = os.open(staging, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlaceTakenError(
                f"{staging} is being written by another pull", "wait for that one to end"
            ) from None
        yield
    finally:
        os.close(handle)


def _fetch_file(store: Store, manifest: Manifest, file: StoredFile, path: Path) -> int:
    """Write a file; the bytes that were fetched, none where it is there from an earlier pull."""
    if path.is_file() and not path.is_symlink() and _digest(path) == file.sha256:
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = hashlib.sha256()
    with paths.replacing(path) as out:
        for own in file.objects:
            content = store.backend.read(object_key(own))
            if content is None or digest_of(content) != own:
                what = "missing" if content is None else "damaged"
                raise DamagedError(
                    f"store {store.name}: object {own[:16]} of {manifest.item} ({file.path}) is {what}",
                    AGAIN,
                )
            whole.update(content)
            out.write(content)
        if whole.hexdigest() != file.sha256:
            raise DamagedError(
                f"store {store.name}: {file.path} of {manifest.item} is not what was pushed", AGAIN
            )
        out.flush()
        os.fsync(out.fileno())
    return file.size


def _drop_others(manifest: Manifest, staging: Path) -> None:
    """Remove what a killed pull left of files that it was writing."""
    wanted = {file.path for file in manifest.files}
    for path in staging.rglob("*"):
        if path.is_symlink() or (
            path.is_file() and path.relative_to(staging).as_posix() not in wanted
        ):
            path.unlink()


def _name(staging: Path, target: Path, manifest: Manifest) -> None:
    """Give what is complete its name; another pull that was faster is not replaced."""
    if manifest.is_file:
        os.link(staging / manifest.files[0].path, target)
        shutil.rmtree(staging)
    else:
        staging.rename(target)
    sync_folder(target.parent)


def _is_same(manifest: Manifest, target: Path) -> bool:
    """Whether a place has every file of an item as it was pushed."""
    if manifest.is_file:
        return target.is_file() and _digest(target) == manifest.files[0].sha256
    return target.is_dir() and all(
        (target / file.path).is_file() and _digest(target / file.path) == file.sha256
        for file in manifest.files
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
