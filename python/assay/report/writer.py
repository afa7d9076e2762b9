"""Which code wrote a report: text and page can be written again by the same code only."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

_PACKAGES: Final = ("assay.report", "assay.diagnose.page")


@cache
def writer_digest() -> str:
    """SHA-256 over the sources and templates that words and pictures come from."""
    total = hashlib.sha256()
    for package in _PACKAGES:
        folder = files(package)
        parts = [*folder.iterdir(), *folder.joinpath("assets").iterdir()]
        for part in sorted(parts, key=lambda file: file.name):
            if part.is_file() and part.name.endswith((".py", ".css", ".html")):
                total.update(part.name.encode() + b"\0" + part.read_bytes())
    return total.hexdigest()
