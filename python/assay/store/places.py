"""Places that a store can be in, by how users name them."""

from __future__ import annotations

from typing import Final

from assay.errors import InputError
from assay.object_store import SERVICES
from assay.store.backend import Backend
from assay.store.bucket import Bucket
from assay.store.folder import Folder

FORMS: Final = ", ".join(service.form for service in SERVICES.values())
"""How users write the address of a bucket."""


def open_backend(place: str) -> Backend:
    """The objects of a folder or of a bucket; nothing is read or written yet."""
    service = SERVICES.get(place.partition(":")[0]) if ":" in place else None
    if service is not None:
        return Bucket(place, service)
    if not place or "://" in place:
        # An address of another kind may have a password in it.
        given = f"{place.partition('://')[0]}://..." if place else "none"
        raise InputError(f"store: expected a folder or one of {FORMS}, got {given}")
    return Folder(place)
