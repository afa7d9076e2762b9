"""Where things are in a store, and the file that makes a place a store.

    assay-store.json            what marks a store: format and id
    objects/AB/DIGEST           bytes by their SHA-256, at most 8 MiB each
    manifests/AB/DIGEST         what an item is and which objects it is made of, by its own SHA-256
    refs/KIND/NAME/DIGEST       the item KIND/NAME has this manifest; who pushed it first, or empty
    tags/KIND/NAME/CODE         empty: the item KIND/NAME has this tag, in base 32
    pushes/ID                   the manifest of a push under way, whose objects stay
    sweeps/ID                   a removal of garbage under way, which pushes wait for
    temporary/ID                in a folder only: a file that is being written

Objects, manifests and refs are written once and in this order, so what a ref leads to is whole, and
two writers of one name add a ref each.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.store.backend import Backend, StoreError
from assay.store.folder import TEMPORARY
from assay.store.places import FORMS, open_backend

MARKER: Final = "assay-store.json"
FORMAT: Final = 1
VARIABLE: Final = "ASSAY_STORE"
OBJECTS: Final = "objects/"
MANIFESTS: Final = "manifests/"
REFS: Final = "refs/"
TAGS: Final = "tags/"
PUSHES: Final = "pushes/"
SWEEPS: Final = "sweeps/"
_OWN: Final = (OBJECTS, MANIFESTS, REFS, TAGS, PUSHES, SWEEPS, TEMPORARY)
OBJECT_BYTES: Final = 8 << 20
"""Files are cut into objects of this size: what an interrupted push sends again is less."""

_MAKE_AGAIN: Final = (
    f"remove {MARKER} and let assay store init make it again: items stay, and get a new index"
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[0-9a-f]{32}")


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 as the store writes it.

    >>> is_digest("ab" * 32), is_digest("AB" * 32)
    (True, False)
    """
    return _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Store:
    """A place that is a store."""

    backend: Backend
    id: str
    """The same for everybody; local indexes are named by it."""

    @property
    def name(self) -> str:
        """The place as users name it."""
        return self.backend.name


def digest_of(content: bytes) -> str:
    """SHA-256 in hexadecimal digits.

    >>> digest_of(b"")[:16]
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(content).hexdigest()


def object_key(digest: str) -> str:
    """Where an object is."""
    return f"{OBJECTS}{digest[:2]}/{digest}"


def manifest_key(digest: str) -> str:
    """Where a manifest is."""
    return f"{MANIFESTS}{digest[:2]}/{digest}"


def ref_key(kind: str, name: str, digest: str) -> str:
    """What makes a manifest that of an item."""
    return f"{REFS}{kind}/{name}/{digest}"


def chosen_place(place: str | None) -> str:
    """The store that a command is given, or that of `ASSAY_STORE`."""
    if chosen := place or os.environ.get(VARIABLE):
        return chosen
    raise InputError(
        "expected a store, got none",
        f"--store names a folder or one of {FORMS}, or the variable {VARIABLE} does",
    )


def open_store(place: str | None) -> Store:
    """The store at a place; one that `init` has not made is refused."""
    return _opened(open_backend(chosen_place(place)))


def _opened(backend: Backend) -> Store:
    content = backend.read(MARKER)
    if content is None:
        is_file = Path(backend.name).expanduser().is_file()
        raise StoreError(
            f"{backend.name} is not a store: expected {'a folder' if is_file else MARKER}, got "
            f"{'a file' if is_file else 'none'}",
            f"name a folder, or one of {FORMS}"
            if is_file
            else f"assay store init --store {backend.name} makes one",
        )
    return Store(backend, _marked(backend, content))


def init_store(place: str | None) -> tuple[Store, bool]:
    """Make a store where there is none; the store, and whether it is new."""
    backend = open_backend(chosen_place(place))
    if backend.entry(MARKER) is None:
        _refuse_others(backend)
    marker = {"format": FORMAT, "id": secrets.token_hex(16), "created_at": round(time.time(), 3)}
    is_new = backend.create(MARKER, (json.dumps(marker, sort_keys=True) + "\n").encode())
    # Where two make it at once, both go on with the id of the first.
    return _opened(backend), is_new


def _refuse_others(backend: Backend) -> None:
    """A store among other files would be hard to tell from them, and to remove."""
    others = (entry.key for entry in backend.entries("") if not entry.key.startswith(_OWN))
    other = next((key for key in others if key != MARKER), None)
    if other is not None:
        raise StoreError(
            f"{backend.name}: expected an empty place or a store, got other files, such as {other}",
            f"assay store init --store {backend.name.rstrip('/')}/assay makes one beside them",
        )


def _marked(backend: Backend, content: bytes) -> str:
    try:
        marker = json.loads(content)
        stated, format_number = marker["id"], marker["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f"store {backend.name}: {MARKER} is damaged", _MAKE_AGAIN) from None
    if format_number != FORMAT:
        raise StoreError(
            f"store {backend.name}: expected format {FORMAT}, got {format_number!r}",
            "upgrade assay to read it",
        )
    if not isinstance(stated, str) or not _ID.fullmatch(stated):
        raise StoreError(
            f"store {backend.name}: {MARKER} is damaged: its id is {stated!r}", _MAKE_AGAIN
        )
    return stated
