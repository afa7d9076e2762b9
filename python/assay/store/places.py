"""Places that a store can be in, by how users name them."""

from __future__ import annotations

from assay.errors import InputError
from assay.store.backend import Backend
from assay.store.bucket import Bucket
from assay.store.folder import Folder


def open_backend(place: str) -> Backend:
    """The objects of a folder or of `s3://BUCKET/PREFIX`; nothing is read or written yet."""
    if place.startswith("s3:"):
        return Bucket(place)
    if not place or "://" in place:
        raise InputError(f"store: expected a folder or s3://BUCKET/PREFIX, got {place!r}")
    return Folder(place)
