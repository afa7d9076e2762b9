"""The items of a store by name: each ref is a key, so a listing has all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from assay.errors import InputError, unknown_name
from assay.plurals import count
from assay.store.layout import REFS, Store, is_digest
from assay.store.manifest import KINDS, is_name

_MOST_NAMED: Final = 6
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}")


class Ref(NamedTuple):
    """A version of an item."""

    kind: str
    name: str
    manifest: str
    pushed_at: float
    """By the clock of the store."""

    @property
    def item(self) -> str:
        """The name under its kind."""
        return f"{self.kind}/{self.name}"


def refs(store: Store, prefix: str = "") -> Iterator[Ref]:
    """Every ref below a prefix such as `run/` or `run/NAME/`; keys that are none are left out."""
    for entry in store.backend.entries(f"{REFS}{prefix}"):
        kind, _, rest = entry.key.removeprefix(REFS).partition("/")
        name, _, digest = rest.partition("/")
        if kind in KINDS and is_name(name) and is_digest(digest):
            yield Ref(kind, name, digest, entry.modified)


def versions(store: Store, item: str, *, is_whole: bool = False) -> list[Ref]:
    """The versions of an item, the latest first: KIND/NAME, or a NAME that one kind has.

    The start of a name will do where only one item has it, unless it must be `is_whole`.
    """
    kind, _, name = item.rpartition("/")
    if kind and kind not in KINDS:
        raise unknown_name("kind of item", kind, KINDS)
    if not is_name(name):
        raise InputError(f'item: expected KIND/NAME, got "{item}"', f"kinds: {', '.join(KINDS)}")
    matches = [
        ref for each in ([kind] if kind else KINDS) for ref in refs(store, f"{each}/{name}/")
    ]
    kinds = sorted({ref.kind for ref in matches})
    if len(kinds) > 1:
        raise InputError(
            f'item "{name}" is not unique in {store.name}',
            f"one of: {', '.join(f'{kind}/{name}' for kind in kinds)}",
        )
    if not matches and not is_whole:
        matches = _starting(store, kind, name)
    if not matches and is_whole and (started := _items_starting(store, kind, name)):
        raise InputError(
            f'item "{item}": expected a whole name, got the start of {count(len(started), "item")}',
            f"one of: {', '.join(started[:_MOST_NAMED])}"
            if len(started) > 1
            else f"its whole name: {started[0]}",
        )
    if not matches:
        _refuse_version(store, item, name)
        known = {ref.item if kind else ref.name for ref in refs(store)}
        raise unknown_name(f"item of {store.name}:", item, known, "assay store list names them")
    return sorted(matches, key=lambda ref: (-ref.pushed_at, ref.manifest))


def _refuse_version(store: Store, item: str, digits: str) -> None:
    """Lists show the first digits of versions beside names, and one may be given for the other."""
    if not _DIGITS.fullmatch(digits):
        return
    if ref := next((ref for ref in refs(store) if ref.manifest.startswith(digits)), None):
        raise InputError(
            f'item "{item}": expected KIND/NAME, got the digits of a version of {ref.item}',
            f"its name: {ref.item}",
        )


def _starting(store: Store, kind: str, name: str) -> list[Ref]:
    """The versions of the only item whose name starts so."""
    matches = [ref for ref in refs(store, f"{kind}/" if kind else "") if ref.name.startswith(name)]
    items = sorted({ref.item for ref in matches})
    if len(items) > 1:
        raise InputError(
            f'item "{name}" is not unique in {store.name}: {len(items)} items start with it',
            f"one of: {', '.join(items[:_MOST_NAMED])}",
        )
    return matches


def _items_starting(store: Store, kind: str, name: str) -> list[str]:
    known = refs(store, f"{kind}/" if kind else "")
    return sorted({ref.item for ref in known if ref.name.startswith(name)})
