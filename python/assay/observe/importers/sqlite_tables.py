"""Tables of an SQLite file that somebody else wrote: read only, and trusted with nothing.

A hostile file may hold views, triggers, virtual tables and values of any type under any column.
Only plain tables are read, with columns by name; the file is opened read-only and immutable, its
schema untrusted. A cell of another type than its column's is not used: it is counted.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from assay.errors import InputError
from assay.lazy_import import pl

BATCH: Final = 100_000
LONGEST: Final = 16 << 20
"""Bytes of the longest text or blob that is read."""

WRONG_TYPE: Final = "value of another type than its column left out"


class SqliteTables:
    """The plain tables of an SQLite file, and their columns."""

    def __init__(self, path: Path) -> None:
        """Open a file for reading."""
        self.where = str(path)
        address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        self._connection.text_factory = self._decode
        self.undecodable = 0
        self.columns: dict[str, list[str]] = {}
        self.virtual: list[str] = []
        try:
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("PRAGMA cell_size_check = ON")
            self._connection.execute("PRAGMA query_only = ON")
            self._read_schema()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._connection.close()
            raise self._error(error) from None

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.undecodable += 1
            return data.decode("utf-8", "replace")

    def _read_schema(self) -> None:
        listed = self._connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        for kind, name, sql in listed:
            if kind != "table" or not isinstance(name, str) or not isinstance(sql, str):
                continue
            if re.match(r"\s*CREATE\s+VIRTUAL\b", sql, re.IGNORECASE):
                self.virtual.append(name)
                continue
            declared = self._connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
            # Hidden and generated columns compute something: those are left alone.
            self.columns[name] = [column for _, column, *_, hidden in declared if hidden == 0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _error(self, error: Exception) -> InputError:
        return InputError(
            f"{self.where}: expected an SQLite database, got: {str(error)[:200]}",
            "nsys export --type sqlite writes one; this file may be cut short",
        )

    def read(
        self, table: str, wanted: dict[str, Any], repairs: Counter[str]
    ) -> pl.DataFrame | None:
        """The wanted columns of a table, null where it has none; None without such a table.

        Types are Int64, Float64 or String.
        """
        if table not in self.columns:
            return None
        present = [name for name in wanted if name in self.columns[table]]
        if not present:
            return pl.DataFrame(schema=wanted)
        query = f"SELECT {', '.join(map(_quoted, present))} FROM {_quoted(table)}"
        batches = []
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(query)
                while rows := cursor.fetchmany(BATCH):
                    batches.append(self._frame(rows, present, wanted, repairs))
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise self._error(error) from None
        frame = (
            pl.concat(batches) if batches else pl.DataFrame(schema={n: wanted[n] for n in present})
        )
        return frame.select(
            pl.col(name) if name in present else pl.lit(None, kind).alias(name)
            for name, kind in wanted.items()
        )

    def _frame(
        self, rows: list[tuple[Any, ...]], names: list[str], kinds: dict[str, Any],
        repairs: Counter[str],
    ) -> pl.DataFrame:  # fmt: skip
        columns = {}
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            kind = kinds[name]
            wanted = (int, float) if kind == pl.Float64 else str if kind == pl.String else int
            wrong = sum(value is not None and not isinstance(value, wanted) for value in values)
            if wrong:
                repairs[WRONG_TYPE] += wrong
                values = tuple(value if isinstance(value, wanted) else None for value in values)
            columns[name] = pl.Series(name, values, kind)
        return pl.DataFrame(columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
