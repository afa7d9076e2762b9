"""`assay store list`, `find`, `status`, `remove`: what a store holds, by name, taxonomy, tag, time or hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.plurals import count, size
from assay.store.existing import existing_values
from assay.store.index import Index, Row
from assay.store.layout import MANIFESTS, OBJECTS, init_store, open_store, ref_key
from assay.store.leases import PushUnderWay, leases
from assay.store.manifest import KINDS, TAXONOMY
from assay.store.refs import refs, versions
from assay.store.tagging import tag_key, tags_of
from assay.store.terms import read_terms

LIMIT: Final = 50


@dataclass(frozen=True, kw_only=True)
class Made(Answer):
    """A store, and whether it was made now."""

    store: str
    id: str
    is_new: bool


@dataclass(frozen=True, kw_only=True)
class StoreStatus(Answer):
    """What a store holds, in numbers."""

    store: str
    id: str
    kinds: Mapping[str, int]
    """Items by kind."""
    versions: int
    objects: int
    manifests: int
    bytes: int
    pushes: int
    """Under way, or cut short and not collected since."""
    unverified: int = 0
    """Versions of runs that do not verify, pushed all the same."""
    under_way: Sequence[PushUnderWay] = ()
    """The pushes one by one."""

    def headline(self) -> str:
        """How many items of which kinds there are, and what their objects take."""
        kinds = ", ".join(count(number, kind) for kind, number in self.kinds.items() if number)
        held = count(sum(self.kinds.values()), "item") + (f" ({kinds})" if kinds else "")
        versions = count(self.versions, "version")
        return f"{self.store}: {held}, {versions}, {size(self.bytes)}"


@dataclass(frozen=True, kw_only=True)
class Found(Answer):
    """Items that fulfill every term, the latest first."""

    store: str
    terms: Mapping[str, str]
    total: int
    items: Sequence[Mapping[str, Any]]

    def headline(self) -> str:
        """How many items there are, which terms they fulfill, and the latest."""
        asked = " ".join(f"{name}={text}" for name, text in self.terms.items())
        of = f"{self.store} of {asked}" if asked else self.store
        if not self.items:
            return f"nothing in {of}" if not self.total else f"{count(self.total, 'item')} in {of}"
        latest = f"the latest {self.items[0]['item']}"
        cut = f", {len(self.items):,} of them listed" if len(self.items) < self.total else ""
        return f"{count(self.total, 'item')} in {of}{cut}, {latest}"

    def view(self) -> list[Any]:
        """The items first."""
        data = self.to_json()
        return [data.pop("items"), data]


@dataclass(frozen=True, kw_only=True)
class Removed(Answer):
    """An item that the store no longer names; `gc` removes its objects."""

    store: str
    item: str
    versions: Sequence[str]


def make_store(place: str | None = None) -> Made:
    """Make a store in a folder or bucket; one that is there stays as it is."""
    store, is_new = init_store(place)
    return Made(store=store.name, id=store.id, is_new=is_new, notes=store.backend.notes)


def store_status(place: str | None = None) -> StoreStatus:
    """Count items and objects of a store, of `ASSAY_STORE` by default."""
    store = open_store(place)
    with Index.of(store) as index:
        index.refresh(store)
        unverified = index.number(["unverified IS NOT NULL"], [])
    pushes, ended = leases(store)
    known = list(refs(store))
    items = {(ref.kind, ref.name) for ref in known}
    objects = list(store.backend.entries(OBJECTS))
    return StoreStatus(
        store=store.name,
        id=store.id,
        kinds={kind: sum(item[0] == kind for item in items) for kind in KINDS},
        versions=len(known),
        objects=len(objects),
        manifests=sum(1 for _ in store.backend.entries(MANIFESTS)),
        bytes=sum(entry.size for entry in objects),
        pushes=len(pushes) + len(ended),
        unverified=unverified,
        under_way=[lease.under_way(lease.manifest.total_bytes) for lease in pushes],
        notes=_notes(len(ended)),
    )


def _notes(ended: int) -> list[str]:
    if not ended:
        return []
    return [
        f"{count(ended, 'push', 'pushes')} of this machine cut short: the same push goes on, "
        "and assay store gc --grace 0s removes what it left"
    ]


def find(
    terms: Sequence[str] = (),
    place: str | None = None,
    *,
    limit: int = LIMIT,
    refresh: bool = True,
    progress: Progress = silent,
) -> Found:
    """Items by terms such as `kind=run`, `model=llama`, `tag=nightly`, `since=2026-11-01`, `sha256=ab12`.

    A name or a part of the taxonomy matches where it contains the term, whatever the case, or is
    it where the term is written `model==NAME`. A term without a sign is looked for in all of them.
    Without `refresh` the local index answers as it is.
    """
    if limit < 0:
        raise InputError(f"--limit: expected a whole number >= 0, got {limit}")
    asked = read_terms(terms)
    conditions = [term.condition for term in asked]
    values = [value for term in asked for value in term.values]
    store = open_store(place)
    with Index.of(store) as index:
        if refresh:
            index.refresh(store, progress)
        rows = index.select(conditions, values, limit)
        total = len(rows) if limit and len(rows) < limit else index.number(conditions, values)
        notes = [] if rows else existing_values(index, asked)
    if damaged := [row for row in rows if row["damage"]]:
        notes.append(f"{damaged[0]['damage']}; assay store verify names all")
    return Found(
        store=store.name,
        terms={term.name: term.text for term in asked},
        total=total,
        items=[_item(row) for row in rows],
        notes=notes,
    )


def remove_item(item: str, place: str | None = None) -> Removed:
    """Remove the refs of an item."""
    store = open_store(place)
    known = versions(store, item, is_whole=True)
    for ref in known:
        store.backend.remove(ref_key(ref.kind, ref.name, ref.manifest))
    # After the refs: what is left of a removal that was cut short, gc removes.
    for tag in tags_of(store, known[0].kind, known[0].name):
        store.backend.remove(tag_key(known[0].kind, known[0].name, tag))
    return Removed(store=store.name, item=known[0].item, versions=[ref.manifest for ref in known])


def _item(row: Row) -> dict[str, Any]:
    return {
        "item": f"{row['kind']}/{row['name']}",
        "kind": row["kind"],
        "name": row["name"],
        "created_at": row["created_at"],
        "pushed_at": row["pushed_at"],
        **{name: row[name] for name in TAXONOMY},
        "catalog_accelerator": row["catalog_accelerator"],
        "verdict": row["verdict"],
        "metric": row["metric"],
        "ratio": None
        if row["ratio"] is None
        else {"value": row["ratio"], "lo": row["ratio_lo"], "hi": row["ratio_hi"]},
        "tags": row["tags"],
        "files": row["files"],
        "bytes": row["bytes"],
        "redacted": None if row["is_redacted"] is None else bool(row["is_redacted"]),
        "unverified": row["unverified"],
        "pushed_by": row["pushed_by"],
        "manifest": row["manifest"],
        "damage": row["damage"],
    }
