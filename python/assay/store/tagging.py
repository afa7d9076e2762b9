"""`assay store tag`: words that an item is found by, each an empty object beside the item's refs.

A tag belongs to the name of an item, not to a version of it: what is pushed again is the same version,
with or without tags, and keeps them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.answers import Answer, silent
from assay.errors import InputError
from assay.improve.journal.faults import fault_point
from assay.store.layout import TAGS, Store, open_store
from assay.store.leases import SWEEP_S, leased
from assay.store.manifest import KINDS, is_name, is_tag, read_manifest
from assay.store.refs import versions

KEEP: Final = "keep"
"""The tag of items that no retention policy removes."""


class Tag(NamedTuple):
    """A word that an item is found by."""

    kind: str
    name: str
    tag: str


@dataclass(frozen=True, kw_only=True)
class Tagged(Answer):
    """An item and its tags as they are now."""

    store: str
    item: str
    tags: Sequence[str]


def tag_item(
    item: str, add: Sequence[str] = (), remove: Sequence[str] = (), place: str | None = None
) -> Tagged:
    """Add and remove tags of an item; one that is there, or is not, stays so."""
    check_tags([*add, *remove])
    store = open_store(place)
    ref = versions(store, item)[0]
    present = set(tags_of(store, ref.kind, ref.name))
    if strange := sorted(set(remove) - present):
        raise InputError(
            f"{ref.item}: expected one of its tags, got {strange[0]}",
            f"it has: {', '.join(sorted(present)) or 'none'}",
        )
    for tag in remove:
        store.backend.remove(tag_key(ref.kind, ref.name, tag))
    if KEEP in add:
        # A removal under way may have read the tags already: this waits for it, as a push does.
        with leased(store, read_manifest(store, ref.manifest), silent, SWEEP_S):
            versions(store, ref.item, is_whole=True)
            add_tags(store, ref.kind, ref.name, add)
    else:
        add_tags(store, ref.kind, ref.name, add)
    return Tagged(store=store.name, item=ref.item, tags=sorted(tags_of(store, ref.kind, ref.name)))


def check_tags(tags: Sequence[str]) -> None:
    """Refuse what cannot be a tag."""
    for tag in tags:
        if not is_tag(tag):
            raise InputError(
                f'tag: expected letters, digits and . _ : = / -, got "{tag}"',
                "such as nightly or team=search",
            )


def add_tags(store: Store, kind: str, name: str, tags: Sequence[str]) -> None:
    """Give an item tags; two who give the same write the same."""
    for tag in tags:
        store.backend.create(tag_key(kind, name, tag), b"")
        fault_point("store.tag")


def all_tags(store: Store, prefix: str = "") -> Iterator[Tag]:
    """Every tag below a prefix such as `run/` or `run/NAME/`; keys that are none are left out."""
    for entry in store.backend.entries(f"{TAGS}{prefix}"):
        kind, _, rest = entry.key.removeprefix(TAGS).partition("/")
        name, _, code = rest.partition("/")
        tag = _decoded(code)
        if kind in KINDS and is_name(name) and tag is not None:
            yield Tag(kind, name, tag)


def tags_of(store: Store, kind: str, name: str) -> list[str]:
    """The tags of an item."""
    return [tag.tag for tag in all_tags(store, f"{kind}/{name}/")]


def tag_key(kind: str, name: str, tag: str) -> str:
    """Where a tag of an item is: letters and digits alone, since a tag may have a slash.

    >>> tag_key("run", "a", "x/y")
    'tags/run/a/paxxs'
    """
    code = base64.b32encode(tag.encode()).decode().rstrip("=").lower()
    return f"{TAGS}{kind}/{name}/{code}"


def _decoded(code: str) -> str | None:
    try:
        tag = base64.b32decode(code.upper() + "=" * (-len(code) % 8)).decode()
    except (binascii.Error, ValueError):
        return None
    return tag if is_tag(tag) else None
