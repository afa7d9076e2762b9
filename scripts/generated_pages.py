"""Writes pages of docs/reference, or says which of them are out of date."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

END = "<!-- end -->"


def filled(page: str, text: str, comment: str) -> str:
    """A page with a text between a comment and the next end."""
    before, start, rest = page.partition(comment)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"expected the comments {comment} and {END}")
    return f"{before}{comment}\n{text}\n{END}{after}"


def write_or_check(pages: Mapping[Path, str], command: str, arguments: Sequence[str]) -> int:
    """Write the pages, or with --check compare them to what stands there; the exit code."""
    if list(arguments) not in ([], ["--check"]):
        print(f"error: expected --check or nothing, got {' '.join(arguments)}", file=sys.stderr)
        return 2
    if not arguments:
        for path, page in pages.items():
            path.write_text(page, encoding="utf-8")
        return 0
    stale = [
        path.name
        for path, page in pages.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != page
    ]
    if stale:
        print(f"error: {' and '.join(stale)} out of date\nhint: run {command}", file=sys.stderr)
    return 1 if stale else 0
