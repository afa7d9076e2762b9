"""Data sets of claims, staged on this machine: copied or downloaded once, checked by their hash.

The folder is a cache with a budget: what was not used for longest goes first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from assay import paths
from assay.bench.claims.claim import Claim
from assay.engine.loading.downloading import Expected, download
from assay.engine.loading.pull_folder import PullError
from assay.errors import InputError

BUDGET_BYTES: Final = 20 * 10**9
"""What staged data sets may take together unless told otherwise."""
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Staged:
    """A data set on this machine."""

    sha256: str
    path: Path
    nbytes: int


class Eviction(NamedTuple):
    """A data set that went, so that others fit."""

    sha256: str
    nbytes: int


def folder() -> Path:
    """Where data sets are staged."""
    return paths.cache("data-sets")


def staged() -> list[Staged]:
    """All data sets, the least recently used first."""
    files = [path for path in folder().glob("*") if not path.name.startswith(".")]
    known = [(path.stat(), path) for path in files if path.is_file()]
    known.sort(key=lambda entry: entry[0].st_mtime_ns)
    return [Staged(path.name, path, stat.st_size) for stat, path in known]


def stage(claim: Claim, budget_bytes: int = BUDGET_BYTES) -> Staged:
    """The file of a claim in the cache, copied or downloaded if it is not there yet."""
    (expected,) = claim.data.sha256
    target = folder() / expected
    if not target.is_file():
        _bring(claim, expected, target)
    # The time of the last use, which eviction reads.
    os.utime(target)
    for _ in evict(budget_bytes, keep=expected):
        pass
    return Staged(expected, target, target.stat().st_size)


def _bring(claim: Claim, expected: str, target: Path) -> None:
    source = claim.data.file
    if source.startswith(("https://", "http://")):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            download(source, target, Expected(sha256=expected), lambda *_: None)
        except PullError as error:
            # Exit code 1 would say that a gate failed.
            raise InputError(
                f"{claim.name}: expected the data set {source}, got none: {error.message}",
                "what has arrived is kept, and the same command continues",
            ) from None
        return
    origin = (claim.path.parent if claim.path else Path()) / source
    if not origin.is_file():
        raise InputError(
            f"{claim.name}: expected the data set {source}, got no file at {origin}",
            "put it beside the claim, or name its address in data.file",
        )
    got = digest(origin)
    if got != expected:
        raise InputError(
            f"{claim.name}: {source}: expected sha256 {expected[:12]}..., got {got[:12]}...",
            "the file is not the one that was measured",
        )
    with paths.replacing(target) as copy, origin.open("rb") as file:
        shutil.copyfileobj(file, copy, _CHUNK)


def evict(budget_bytes: int, keep: str = "") -> Iterator[Eviction]:
    """Remove data sets, the least recently used first, until the others fit into the budget."""
    known = staged()
    total = sum(entry.nbytes for entry in known)
    for entry in known:
        if total <= budget_bytes:
            return
        if entry.sha256 == keep:
            continue
        entry.path.unlink(missing_ok=True)
        total -= entry.nbytes
        yield Eviction(entry.sha256, entry.nbytes)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
