"""Manifests: what an item of the store is, and which objects its files are made of.

A manifest is the canonical JSON of its data and is named by its SHA-256, so the same item pushed
twice is one manifest, and a manifest that was changed is not the one that a ref names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from assay.improve.journal.chain import canonical
from assay.store.backend import DamagedError
from assay.store.layout import OBJECT_BYTES, Store, digest_of, is_digest, manifest_key

KINDS: Final = ("run", "trace", "telemetry", "result", "calibration")
TAXONOMY: Final = ("model", "engine", "accelerator", "workload")
"""What items are found by, besides kind, name, time and tags."""
FORMAT: Final = 1
_WORDS: Final = ("verdict", "metric")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:=/-]{0,127}")
_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an item."""

    path: str
    """Relative, with slashes."""
    size: int
    sha256: str
    objects: tuple[str, ...]
    """Its bytes in order: SHA-256 of every `OBJECT_BYTES`; none where it is empty."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """An item: a run, a trace, telemetry, a result or a calibration."""

    kind: str
    name: str
    created_at: float
    """When the item was made, in seconds since 1970; pushing it later changes nothing."""
    files: tuple[StoredFile, ...]
    taxonomy: Mapping[str, str] = field(default_factory=dict)
    is_file: bool = False
    """Whether the item is its one file, not a folder."""
    outcome: Mapping[str, Any] | None = None
    """What a run came to: `verdict`, `metric`, and `ratio` with `value`, `lo` and `hi`."""
    redaction: Mapping[str, Any] | None = None
    """What was taken out of it, and the SHA-256 of the files as they were before."""
    unverified: str | None = None
    """Why a run does not verify that was pushed all the same."""

    @property
    def item(self) -> str:
        """The name under its kind."""
        return f"{self.kind}/{self.name}"

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)

    def objects(self) -> Iterator[tuple[str, int]]:
        """Digest and size of every object, each once."""
        seen = set()
        for file in self.files:
            for number, digest in enumerate(file.objects):
                if digest not in seen:
                    seen.add(digest)
                    yield digest, min(OBJECT_BYTES, file.size - number * OBJECT_BYTES)

    def content(self) -> bytes:
        """The bytes that are stored."""
        data: dict[str, Any] = {
            "format": FORMAT,
            "kind": self.kind,
            "name": self.name,
            "created_at": self.created_at,
            "taxonomy": dict(self.taxonomy),
            "is_file": self.is_file,
            "files": [
                [file.path, file.size, file.sha256, list(file.objects)] for file in self.files
            ],
        }
        if self.outcome is not None:
            data["outcome"] = dict(self.outcome)
        if self.redaction is not None:
            data["redaction"] = dict(self.redaction)
        if self.unverified is not None:
            data["unverified"] = self.unverified
        return canonical(data).encode()


def is_name(text: str) -> bool:
    """Whether a text may name an item.

    >>> is_name("20260101-000000-chat-1f2e"), is_name("../etc"), is_name("")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Whether a text may be a tag.

    >>> is_tag("team=search"), is_tag("two words")
    (True, False)
    """
    return _TAG.fullmatch(text) is not None


def read_manifest(store: Store, digest: str) -> Manifest:
    """The manifest of a digest; bytes that do not have it are never believed."""
    content = store.backend.read(manifest_key(digest))
    if content is None:
        raise DamagedError(
            f"store {store.name}: manifest {digest[:16]} is missing", "assay store verify says more"
        )
    if digest_of(content) != digest:
        raise DamagedError(
            f"store {store.name}: manifest {digest[:16]} is damaged",
            "assay store verify says more; pushing the item again mends it",
        )
    return parse(content, f"manifest {digest[:16]}")


def parse(content: bytes, what: str) -> Manifest:
    """A manifest from its bytes, every field checked: a store is input."""
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError(f"{len(content):,} bytes")
        data = json.loads(content)
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        manifest = Manifest(
            kind=_checked(data["kind"], data["kind"] in KINDS),
            name=_checked(data["name"], is_name(data["name"])),
            created_at=_checked(float(data["created_at"]), math.isfinite(data["created_at"])),
            files=tuple(_file(*file) for file in data["files"]),
            taxonomy={str(key): str(value) for key, value in data["taxonomy"].items()},
            is_file=bool(data["is_file"]),
            outcome=_outcome(data.get("outcome")),
            redaction=data.get("redaction"),
            unverified=None if data.get("unverified") is None else str(data["unverified"]),
        )
        _check_paths(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{what}: expected a manifest, got: {error!r}"[:300]) from None
    return manifest


def _file(path: str, size: int, sha256: str, objects: list[str]) -> StoredFile:
    parts = PurePosixPath(path).parts
    is_plain = bool(parts) and "/".join(parts) == path and not path.startswith("/")
    _checked(path, is_plain and ".." not in parts and "\\" not in path and "\0" not in path)
    expected = -(-size // OBJECT_BYTES)
    _checked(size, size >= 0 and len(objects) == expected)
    for digest in (sha256, *objects):
        _checked(digest, is_digest(digest))
    return StoredFile(path, size, sha256, tuple(objects))


def _outcome(data: Any) -> Mapping[str, Any] | None:
    if data is None:
        return None
    words = {name: _checked(data[name], isinstance(data[name], str)) for name in _WORDS}
    ratio = data["ratio"]
    if ratio is not None:
        ratio = {name: float(ratio[name]) for name in ("value", "lo", "hi")}
        _checked(ratio, all(map(math.isfinite, ratio.values())))
    return {**words, "ratio": ratio}


def _check_paths(manifest: Manifest) -> None:
    """No path twice, and none below another: a file is not a folder."""
    paths = {file.path for file in manifest.files}
    above = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    _checked("paths", len(paths) == len(manifest.files) and not paths & above)
    if manifest.is_file:
        _checked("files", len(paths) == 1 and "/" not in manifest.files[0].path)


def _checked(value: Any, holds: bool) -> Any:
    if not holds:
        raise ValueError(f"{value!r}")
    return value
