"""The index of a store on this machine: SQLite, made from refs and manifests, and made again at will.

It is a cache: whatever is wrong with it, it is thrown away and read from the store anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay import paths
from assay.answers import Progress, silent
from assay.catalog import accelerators
from assay.closing import Closing
from assay.errors import AssayError, UnknownNameError
from assay.store.backend import StoreError
from assay.store.layout import Store
from assay.store.manifest import TAXONOMY, Manifest, read_manifest
from assay.store.pushers import pusher_of
from assay.store.refs import Ref, refs
from assay.store.tagging import Tag, all_tags

VERSION: Final = 3
_WAIT_S: Final = 30.0
_SCHEMA: Final = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, manifest TEXT NOT NULL,
    pushed_at REAL NOT NULL, created_at REAL, files INTEGER, bytes INTEGER,
    model TEXT, engine TEXT, accelerator TEXT, workload TEXT, catalog_accelerator TEXT,
    verdict TEXT, metric TEXT, ratio REAL, ratio_lo REAL, ratio_hi REAL,
    is_redacted INTEGER, unverified TEXT, pushed_by TEXT, damage TEXT,
    UNIQUE (kind, name, manifest)
);
CREATE INDEX items_by_time ON items (created_at);
CREATE INDEX items_by_manifest ON items (manifest);
CREATE INDEX items_by_model ON items (model COLLATE NOCASE);
CREATE INDEX items_by_engine ON items (engine COLLATE NOCASE);
CREATE INDEX items_by_accelerator ON items (accelerator COLLATE NOCASE);
CREATE INDEX items_by_catalog_accelerator ON items (catalog_accelerator COLLATE NOCASE);
CREATE INDEX items_by_workload ON items (workload COLLATE NOCASE);
CREATE TABLE tags (
    kind TEXT NOT NULL, name TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (kind, name, tag)
) WITHOUT ROWID;
CREATE INDEX tags_by_tag ON tags (tag);
CREATE TABLE files (
    sha256 TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL,
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE
);
CREATE INDEX files_by_digest ON files (sha256);
CREATE INDEX files_by_item ON files (item);
"""

Row = Mapping[str, Any]


class IndexedVersion(NamedTuple):
    """What the index has of a version."""

    ref: Ref
    manifest: Manifest | None
    damage: str | None
    """Why there is no manifest."""
    pushed_by: str | None = None


class Index(Closing):
    """The items of one store, in a file that several processes may use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = self._opened()

    @classmethod
    def of(cls, store: Store) -> Index:
        """The index of a store, in the cache folder."""
        return cls(paths.cache("stores") / f"{store.id}.sqlite")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def refresh(self, store: Store, progress: Progress = silent) -> None:
        """Read what the store has got since, and forget what it no longer has."""
        present = {(ref.kind, ref.name, ref.manifest): ref for ref in refs(store)}
        with self._errors():
            known = {
                (kind, name, manifest): number
                for number, kind, name, manifest in self._database.execute(
                    # What was damaged may have been mended.
                    "SELECT id, kind, name, manifest FROM items WHERE damage IS NULL"
                )
            }
        added = [ref for key, ref in present.items() if key not in known]
        gone = [number for key, number in known.items() if key not in present]
        tags = set(all_tags(store))
        rows = []
        for number, ref in enumerate(added):
            rows.append(_read(store, ref))
            progress(f"index: {number + 1:,} of {len(added):,}")
        with self._errors(), self._database:
            self._database.execute("DELETE FROM items WHERE damage IS NOT NULL")
            self._database.executemany("DELETE FROM items WHERE id = ?", ((n,) for n in gone))
            self.add(rows)
            self._set_tags(tags)

    def _set_tags(self, tags: set[Tag]) -> None:
        known = {Tag(*row) for row in self._database.execute("SELECT kind, name, tag FROM tags")}
        gone = "DELETE FROM tags WHERE kind = ? AND name = ? AND tag = ?"
        self._database.executemany(gone, known - tags)
        self._database.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?, ?)", tags - known)

    def add(self, rows: Iterable[IndexedVersion]) -> None:
        """Add items; one without a manifest says by its damage why."""
        for ref, manifest, damage, pushed_by in rows:
            taxonomy = {} if manifest is None else manifest.taxonomy
            outcome = {} if manifest is None else manifest.outcome or {}
            ratio = outcome.get("ratio") or {}
            cursor = self._database.execute(
                "INSERT OR IGNORE INTO items (kind, name, manifest, pushed_at, created_at, files, bytes, "
                "model, engine, accelerator, workload, catalog_accelerator, verdict, metric, ratio, "
                "ratio_lo, ratio_hi, is_redacted, unverified, pushed_by, damage) "
                f"VALUES ({', '.join('?' * 21)})",
                (
                    *ref,
                    None if manifest is None else manifest.created_at,
                    None if manifest is None else len(manifest.files),
                    None if manifest is None else manifest.total_bytes,
                    *(taxonomy.get(name) for name in TAXONOMY),
                    catalog_name(taxonomy.get("accelerator")),
                    *(outcome.get(name) for name in ("verdict", "metric")),
                    *(ratio.get(name) for name in ("value", "lo", "hi")),
                    None if manifest is None else manifest.redaction is not None,
                    None if manifest is None else manifest.unverified,
                    pushed_by,
                    damage,
                ),
            )
            if manifest is None or not cursor.rowcount:
                continue
            number = cursor.lastrowid
            self._database.executemany(
                "INSERT INTO files VALUES (?, ?, ?, ?)",
                ((file.sha256, file.path, file.size, number) for file in manifest.files),
            )

    def select(self, conditions: Sequence[str], values: Sequence[Any], limit: int) -> list[Row]:
        """Items that fulfill all conditions, the latest first; 0 is no limit."""
        where = " AND ".join(conditions) or "1"
        with self._errors():
            rows = self._database.execute(
                f"SELECT * FROM items WHERE {where} "
                "ORDER BY created_at DESC, pushed_at DESC, manifest LIMIT ?",
                (*values, limit or -1),
            ).fetchall()
            return [{**dict(row), "tags": self._tags(row)} for row in rows]

    def number(self, conditions: Sequence[str], values: Sequence[Any]) -> int:
        """How many items fulfill all conditions."""
        where = " AND ".join(conditions) or "1"
        with self._errors():
            query = f"SELECT count(*) FROM items WHERE {where}"
            return int(self._database.execute(query, values).fetchone()[0])

    def values(
        self, column: str, conditions: Sequence[str], values: Sequence[Any], limit: int
    ) -> tuple[list[str], int]:
        """What a column, or `tag`, has among items that fulfill all conditions: the most frequent; how many."""
        where = " AND ".join(conditions) or "1"
        query = (
            f"SELECT {column} AS text, count(*) AS number FROM items "
            f"{'JOIN tags USING (kind, name)' if column == 'tag' else ''} "
            f"WHERE text IS NOT NULL AND {where} GROUP BY text COLLATE NOCASE "
            "ORDER BY number DESC, text"
        )
        with self._errors():
            texts = [str(row["text"]) for row in self._database.execute(query, values)]
        return texts[:limit], len(texts)

    def _tags(self, item: sqlite3.Row) -> list[str]:
        query = "SELECT tag FROM tags WHERE kind = ? AND name = ? ORDER BY tag"
        rows = self._database.execute(query, (item["kind"], item["name"]))
        return [row["tag"] for row in rows]

    def _opened(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._connected()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
                raise self._error(error) from None
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from None
        # Not a database, or a damaged one: it is read from the store again.
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink(missing_ok=True)
        return self._connected()

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=_WAIT_S)
        try:
            database.row_factory = sqlite3.Row
            database.execute("PRAGMA foreign_keys = ON")
            with database:
                # One process makes the tables, others wait for it.
                database.execute("BEGIN IMMEDIATE")
                version = database.execute("PRAGMA user_version").fetchone()[0]
                if version not in (0, VERSION):
                    raise sqlite3.DatabaseError(f"version {version}")
                if version == 0:
                    for statement in _SCHEMA.split(";"):
                        database.execute(statement)
                    database.execute(f"PRAGMA user_version = {VERSION}")
            database.execute("SELECT count(*) FROM (SELECT 1 FROM items LIMIT 1)").fetchone()
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from None

    def _error(self, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"index {self._path} cannot be used: {error}",
            "remove the file; it is made again from the store",
        )


def _read(store: Store, ref: Ref) -> IndexedVersion:
    pushed_by = pusher_of(store, ref)
    try:
        return IndexedVersion(ref, read_manifest(store, ref.manifest), None, pushed_by)
    except AssayError as error:
        # One damaged manifest must not hide the other items.
        return IndexedVersion(ref, None, error.message, pushed_by)


@cache
def catalog_name(accelerator: str | None) -> str | None:
    """The catalog's name of an accelerator, by which other commands take it; None of what it has not.

    >>> catalog_name("NVIDIA H200"), catalog_name("Intel(R) Xeon(R) Processor")
    ('h200_sxm', None)
    """
    if not accelerator:
        return None
    try:
        return accelerators.find(accelerator).name
    except UnknownNameError:
        return None
