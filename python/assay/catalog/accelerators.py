"""Accelerators of the catalog, found under the names by which publications call them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.catalog import entries
from assay.catalog.entries import CatalogEntry
from assay.errors import UnknownNameError

GROUP = "accelerators"
_WORDS = re.compile(r"[a-z]+\d+[a-z]*|\d+gb?|[a-z]+|\d+")
_NOT_DISTINCTIVE = frozenset(
    ("nvidia", "amd", "google", "cloud", "gpu", "gpus", "tensor", "core", "dgx", "hgx", "instinct",
     "tesla", "geforce", "per", "one", "of", "its", "hbm2", "hbm2e", "hbm3", "hbm3e", "nvl72")
)  # fmt: skip
"""Words that many accelerators' names contain."""


def names() -> tuple[str, ...]:
    """Names of all accelerators."""
    return entries.names(GROUP)


def find(name: str) -> CatalogEntry:
    """An accelerator by its name or an alias, such as `H100-SXM-80GB`.

    An unknown spelling is compared word by word: its distinctive words must all belong to one
    entry. Where an SXM board and a PCIe card both match, the board is chosen.
    """
    try:
        return entries.find(GROUP, name, "accelerator")
    except UnknownNameError as error:
        words = _words(name)
        for entry in sorted(all_accelerators(), key=_preference):
            spellings = (entry.name, entry.title, *entry.aliases)
            if words and any(words <= _words(spelling) for spelling in spellings):
                return entry
        raise error from None


def all_accelerators() -> Iterator[CatalogEntry]:
    """Every accelerator of the catalog."""
    return entries.entries(GROUP)


def low_precision_rates(entry: CatalogEntry) -> dict[str, float]:
    """Rates of 8- and 4-bit GEMMs over 16-bit ones of the best format that a chip has.

    FP8 where it has it, else INT8; FP4; 1 without such units.
    """
    given = entry.given
    if "gpu.rate_8bit" in given:
        return {name: given[name] for name in ("gpu.rate_8bit", "gpu.rate_4bit") if name in given}
    eight = given.get("gpu.rate_fp8") or given.get("gpu.rate_int8") or 1.0
    return {"gpu.rate_8bit": eight, "gpu.rate_4bit": given.get("gpu.rate_fp4") or 1.0}


def _preference(entry: CatalogEntry) -> tuple[bool, int, str]:
    return ("pcie" in entry.name, len(entry.name), entry.name)


def _words(name: str) -> frozenset[str]:
    """The distinctive words of a name, in one spelling."""
    text = re.sub(r"^\s*\d+\s*x\s*", "", name.lower())
    words = _WORDS.findall(re.sub(r"\([^()]*\)", " ", text))
    without_generation = (re.sub(r"^sxm[456]$", "sxm", word) for word in words)
    spelled = frozenset(re.sub(r"^(\d+)g$", r"\1gb", word) for word in without_generation)
    return spelled - _NOT_DISTINCTIVE
