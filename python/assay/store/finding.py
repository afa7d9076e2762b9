"""`assay store list`, `find`, `status`, `remove`: what a store holds, by name, taxonomy, tag, time or hash."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from assay.answers import Answer, Progress, silent
from assay.errors import InputError, unknown_name
from assay.load.workloads.spec import parse_duration
from assay.store.index import Index, Row
from assay.store.layout import MANIFESTS, OBJECTS, PUSHES, init_store, open_store, ref_key
from assay.store.manifest import KINDS, TAXONOMY
from assay.store.refs import refs, versions
from assay.store.tagging import tag_key, tags_of

LIMIT: Final = 50
_TERMS: Final = (
    "kind",
    "name",
    *TAXONOMY,
    "verdict",
    "tag",
    "since",
    "until",
    "sha256",
    "manifest",
)
_BY_TAG: Final = "(kind, name) IN (SELECT kind, name FROM tags WHERE tag = ?)"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}")


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
    """Under way, or cut short in the last hour."""


@dataclass(frozen=True, kw_only=True)
class Found(Answer):
    """Items that fulfill every term, the latest first."""

    store: str
    terms: Mapping[str, str]
    total: int
    items: Sequence[Mapping[str, Any]]


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
    """Count items and objects."""
    store = open_store(place)
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
        pushes=sum(1 for _ in store.backend.entries(PUSHES)),
    )


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
    conditions, values, read = _conditions(terms)
    store = open_store(place)
    with Index.of(store) as index:
        if refresh:
            index.refresh(store, progress)
        rows = index.select(conditions, values, limit)
        total = len(rows) if limit and len(rows) < limit else index.number(conditions, values)
    notes = []
    if damaged := [row for row in rows if row["damage"]]:
        notes.append(f"{damaged[0]['damage']}; assay store verify names all")
    return Found(
        store=store.name, terms=read, total=total, items=[_item(row) for row in rows], notes=notes
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


def _conditions(terms: Sequence[str]) -> tuple[list[str], list[Any], dict[str, str]]:
    conditions: list[str] = []
    values: list[Any] = []
    read: dict[str, str] = {}
    for term in terms:
        name, sign, text = term.partition("=")
        is_exact, text = text.startswith("="), text.removeprefix("=")
        if not sign:
            name, text = "any", term
        elif name not in _TERMS:
            raise unknown_name("term", name, _TERMS)
        if not text:
            raise InputError(f'term "{term}": expected NAME=TEXT, got no text')
        condition, value = _condition(name, text, is_exact)
        conditions.append(condition)
        values += value
        read[name] = text
    return conditions, values, read


def _condition(name: str, text: str, is_exact: bool) -> tuple[str, list[Any]]:
    if name == "any":
        columns = ("name", *TAXONOMY)
        alternatives = " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in columns)
        return f"({alternatives} OR {_BY_TAG})", [_pattern(text)] * len(columns) + [text]
    if name == "kind":
        if text not in KINDS:
            raise unknown_name("kind", text, KINDS)
        return "kind = ?", [text]
    if name == "tag":
        return _BY_TAG, [text]
    if name in ("since", "until"):
        return f"created_at {'>=' if name == 'since' else '<'} ?", [_time(name, text)]
    if name in ("sha256", "manifest"):
        if not _DIGITS.fullmatch(text):
            raise InputError(f"{name}: expected 4 to 64 hexadecimal digits, got {text!r}")
        # A range, so that the start of a hash is found by the index.
        span = [text, text + "g"]
        if name == "manifest":
            return "manifest >= ? AND manifest < ?", span
        return "id IN (SELECT item FROM files WHERE sha256 >= ? AND sha256 < ?)", span
    if is_exact:
        return f"{name} = ? COLLATE NOCASE", [text]
    return f"{name} LIKE ? ESCAPE '\\'", [_pattern(text)]


def _pattern(text: str) -> str:
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def _time(name: str, text: str) -> float:
    """A date, a time, or so long ago; without a zone in UTC. Until a date is until that day ends.

    >>> _time("since", "1970-01-02"), _time("until", "1970-01-02")
    (86400.0, 172800.0)
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        try:
            ago_s = parse_duration(name, text)
        except InputError:
            raise InputError(
                f"{name}: expected a date such as 2026-11-01, or a time ago such as 7d or 90m, "
                f"got {text!r}"
            ) from None
        return time.time() - ago_s
    if name == "until" and _DATE.fullmatch(text):
        when += timedelta(days=1)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _item(row: Row) -> dict[str, Any]:
    return {
        "item": f"{row['kind']}/{row['name']}",
        "kind": row["kind"],
        "name": row["name"],
        "created_at": row["created_at"],
        "pushed_at": row["pushed_at"],
        **{name: row[name] for name in TAXONOMY},
        "verdict": row["verdict"],
        "metric": row["metric"],
        "ratio": None
        if row["ratio"] is None
        else {"value": row["ratio"], "lo": row["ratio_lo"], "hi": row["ratio_hi"]},
        "tags": row["tags"],
        "files": row["files"],
        "bytes": row["bytes"],
        "redacted": None if row["is_redacted"] is None else bool(row["is_redacted"]),
        "manifest": row["manifest"],
        "damage": row["damage"],
    }
