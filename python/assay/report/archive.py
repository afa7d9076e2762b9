"""Copies a finished run to the canonical store, `ASSAY_STORE`, and checks every byte that arrived.

The copy is STORE/runs/ID with a file SHA256SUMS, which `sha256sum -c` reads; it is written last, so
a copy without it is not complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import AssayError, InputError
from assay.object_store import bucket_and_prefix, get, open_bucket, put, without_secrets
from assay.report.run_files import sha256

VARIABLE: Final = "ASSAY_STORE"
SUMS: Final = "SHA256SUMS"
_RETRIES: Final = 3


class ArchiveError(AssayError):
    """A run could not be copied to the store; the run itself is untouched."""


@dataclass(frozen=True, slots=True)
class Archived:
    """Where a run was copied to."""

    place: str
    files: int
    bytes: int


def archive(folder: Path, store: str | None = None) -> Archived | None:
    """Copy a run to the store; None where `ASSAY_STORE` is not set and none is given."""
    store = os.environ.get(VARIABLE) if store is None else store
    if not store:
        return None
    names = _names(folder)
    sums = {name: sha256(folder / name) for name in names}
    if store.startswith("s3:"):
        place = _to_bucket(folder, sums, store)
    elif "://" in store:
        raise InputError(
            f"{VARIABLE}: expected a store, a folder or s3://BUCKET/PREFIX, got "
            f"{store.partition('://')[0]}://...",
            "assay store init makes a store in a bucket of another service",
        )
    else:
        place = _to_folder(folder, sums, Path(store))
    size = sum((folder / name).stat().st_size for name in names)
    return Archived(place, len(names), size)


def _names(folder: Path) -> list[str]:
    """Every file of the run: rows, journal, report, traces, telemetry, logs."""
    names = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not path.is_symlink() and not name.name.startswith("."):
            names.append(name.as_posix())
    return names


def sums_text(sums: dict[str, str]) -> bytes:
    """Hashes in the format of sha256sum."""
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()


def _to_folder(folder: Path, sums: dict[str, str], store: Path) -> str:
    place = store / "runs" / folder.name
    if place.resolve() == folder.resolve():
        raise InputError(f"{VARIABLE}: expected another folder than that of the run, got {store}")
    staging = place.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(staging, ignore_errors=True)
        for name in sums:
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, target)
        for name, digest in sums.items():
            _compare(name, sha256(staging / name), digest, str(place))
        (staging / SUMS).write_bytes(sums_text(sums))
        # A run that went on after it was archived replaces its older copy.
        if place.is_dir():
            shutil.rmtree(place)
        staging.rename(place)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArchiveError(f"store {place} cannot be written: {reason}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return str(place)


def _to_bucket(folder: Path, sums: dict[str, str], url: str) -> str:
    bucket, prefix = bucket_and_prefix(url, VARIABLE)
    inside = "/".join(filter(None, (prefix, "runs", folder.name)))
    place = f"s3://{bucket}/{inside}"
    try:
        target = open_bucket(bucket, inside, retries=_RETRIES)
        for name, digest in sums.items():
            put(target, name, (folder / name).read_bytes())
            _compare(name, hashlib.sha256(get(target, name)).hexdigest(), digest, place)
        put(target, SUMS, sums_text(sums))
    except AssayError:
        raise
    except Exception as error:
        # obstore has no common class for what a network does; none may show a key.
        raise ArchiveError(f"store {place} cannot be written: {without_secrets(error)}") from None
    return place


def _compare(name: str, actual: str, expected: str, place: str) -> None:
    if actual != expected:
        raise ArchiveError(
            f"store {place}: {name} did not arrive as it was sent: SHA-256 expected "
            f"{expected[:16]}.., got {actual[:16]}.."
        )
