"""`assay.list_items` and `assay.find_items`: what a store holds, asked as the commands ask."""

from __future__ import annotations

from collections.abc import Sequence

from assay.answers import Progress, silent
from assay.errors import InputError
from assay.store.finding import LIMIT, Found, find


def list_items(
    place: str | None = None,
    *,
    kind: str | None = None,
    limit: int = LIMIT,
    progress: Progress = silent,
) -> Found:
    """The items of a store, the latest first; of `ASSAY_STORE` by default, 0 is no limit."""
    return find(_of_kind(kind), place, limit=limit, progress=progress)


def find_items(
    terms: str | Sequence[str] = (),
    place: str | None = None,
    *,
    kind: str | None = None,
    limit: int = LIMIT,
    offline: bool = False,
    progress: Progress = silent,
) -> Found:
    """Items that fulfill all terms, such as `["model=llama", "since=7d"]`, the latest first."""
    asked = [*(terms.split() if isinstance(terms, str) else terms), *_of_kind(kind)]
    if not asked:
        raise InputError(
            "expected terms such as model=llama, got none", "assay store list lists all items"
        )
    return find(asked, place, limit=limit, refresh=not offline, progress=progress)


def _of_kind(kind: str | None) -> list[str]:
    return [] if kind is None else [f"kind={kind}"]
