"""Accelerators of the catalogue, found under the names by which publications call them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.catalog import entries
from assay.catalog.entries import Entry
from assay.errors import UnknownNameError

GROUP = "accelerators"


def names() -> list[str]:
    """Names of all accelerators."""
    return entries.names(GROUP)


def find(name: str) -> Entry:
    """An accelerator by its name or an alias, such as `H100-SXM-80GB`.

    The maker's name and what stands in parentheses are left out when the whole name is unknown.
    """
    shorter = re.sub(r"\s*\([^)]*\)", "", name).strip()
    shorter = re.sub(r"^(NVIDIA|AMD|Google)\s+", "", shorter)
    for spelling in dict.fromkeys((name, shorter)):
        try:
            return entries.find(GROUP, spelling, "accelerator")
        except UnknownNameError:
            continue
    return entries.find(GROUP, name, "accelerator")


def all_accelerators() -> Iterator[Entry]:
    """Every accelerator of the catalogue."""
    return entries.entries(GROUP)
