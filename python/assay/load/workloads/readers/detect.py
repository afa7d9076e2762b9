"""Which format a recording has: its content shows it, not its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, unknown_name
from assay.load.workloads.readers import (
    azure,
    burstgpt,
    jsonl,
    lengths_csv,
    lengths_only,
    mooncake,
    sharegpt,
    timed_trace,
    weka,
)
from assay.load.workloads.readers.csv_rows import delimiter_of
from assay.load.workloads.readers.recorded import MAX_LINE, Format, opened

FORMATS: Final[dict[str, Format]] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        jsonl,
        lengths_only,
        lengths_csv,
        mooncake,
        timed_trace,
        burstgpt,
        azure,
        sharegpt,
        weka,
    )
}
"""Every format by name."""

_HEAD: Final = 1 << 16
_ROWS: Final = 64
"""Rows that are looked at to tell blocks of 512 tokens from those of 16."""
_MAPPED: Final = "time=COLUMN,in=COLUMN,out=COLUMN"


def format_of(path: Path, name: str | None = None) -> Format:
    """The format of this name, or the one that the content has."""
    if name is not None:
        if name not in FORMATS:
            raise unknown_name("format of requests", name[:40], FORMATS)
        return FORMATS[name]
    with opened(path) as file:
        head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf")
        file.seek(0)
        line = file.readline(MAX_LINE).removeprefix(b"\xef\xbb\xbf")
    recognized = _recognized(path, head.lstrip(), line)
    if recognized is None:
        raise InputError(
            f"{path}: expected recorded requests, got {_likeness(head)}", _hint(head.lstrip(), line)
        )
    return FORMATS[recognized]


def _recognized(path: Path, head: bytes, line: bytes) -> str | None:
    if head.startswith(b"["):
        return "sharegpt" if b'"conversations"' in head else None
    if head.startswith(b"{"):
        row = _object(line)
        return _by_keys(path, row) if row is not None else _by_words(head)
    columns = set(columns_of(line))
    for name, needed in (("burstgpt", burstgpt.COLUMNS), ("azure", azure.COLUMNS)):
        if columns.issuperset(needed):
            return name
    return "lengths_csv" if lengths_csv.has_columns(columns) else None


def columns_of(line: bytes) -> list[str]:
    """The cells of a header."""
    text = line.decode("utf-8", "replace").strip()
    return [cell.strip().strip('"') for cell in text.split(delimiter_of(text))]


def _by_keys(path: Path, row: Mapping[str, Any]) -> str | None:
    if not row.keys().isdisjoint((jsonl.HEADER, "body", "messages", "turns")):
        return "jsonl"
    if any(isinstance(row.get(name), str) for name in jsonl.PROMPTS):
        return "jsonl"
    if set(lengths_only.FIELDS) <= row.keys():
        return "lengths"
    if "conversations" in row:
        return "sharegpt"
    if {"t", "in", "out"} <= row.keys() or {"requests", "block_size"} <= row.keys():
        return "weka"
    if {"timestamp", "input_length"} <= row.keys():
        return _by_blocks(path)
    return None


def _by_words(head: bytes) -> str | None:
    """The format of an object that goes over several lines."""
    return "weka" if b'"requests"' in head and b'"block_size"' in head else None


def _by_blocks(path: Path) -> str:
    """Mooncake's traces and timed ones have the same labels: the number of hashes tells them apart."""
    rows: list[Mapping[str, Any]] = []
    with opened(path) as file:
        while len(rows) < _ROWS and (line := file.readline(MAX_LINE)):
            if (row := _object(line)) is not None:
                rows.append(row)
    sizes = {"mooncake": mooncake.BLOCK_TOKENS, "timed_trace": timed_trace.BLOCK_TOKENS}
    fitting = [
        name for name, size in sizes.items() if all(mooncake.fits(row, size) for row in rows)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise InputError(
            f"{path}: expected as many hash_ids as a prompt has blocks of 512 or of 16 tokens, got "
            "neither",
            "name the format: mooncake (milliseconds, 512) or timed_trace (seconds, 16)",
        )
    # Without hashes, or with prompts below a block only: times with a fraction are seconds.
    fractions = any(isinstance(row.get("timestamp"), float) for row in rows)
    return "timed_trace" if fractions else "mooncake"


def _hint(head: bytes, line: bytes) -> str | None:
    """What to do about columns by other names; else which formats there are."""
    row = _object(line)
    names = list(row) if row is not None else columns_of(line)
    is_table = not head.startswith((b"[", b"{")) and len(names) > 1
    if names and (row is not None or is_table):
        shown = ", ".join(name[:40] for name in names[:8])
        return f"assay plan takes columns by name: --columns {_MAPPED} (there are: {shown})"
    return f"assay reads {', '.join(FORMATS)}: docs/guides/workloads.md" if head else None


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _likeness(head: bytes) -> str:
    if not head.strip():
        return "an empty file"
    if head.startswith(b"\x1f\x8b"):
        return "a gzip file, which must be unpacked first"
    if head.startswith(b"version https://git-lfs"):
        return "a pointer of Git LFS: the file itself was not downloaded"
    text = head[:40].decode("utf-8", "replace")
    return f"a file that begins with {text!r}"
