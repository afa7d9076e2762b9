"""What an empty answer of `assay store find` says: the values that items have in place of those asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.store.index import Index, catalog_name
from assay.store.manifest import TAXONOMY
from assay.store.terms import Term

_OPEN: Final = ("name", *TAXONOMY, "verdict", "tag")
"""Terms whose values are whatever was pushed; kinds and times are known without looking."""
_MOST: Final = 8


def existing_values(index: Index, terms: Sequence[Term]) -> list[str]:
    """For each term the values that there are among items which fulfill all others."""
    notes = []
    for term in terms:
        if term.name not in _OPEN:
            continue
        others = [other for other in terms if other is not term]
        conditions = [other.condition for other in others]
        bound = [value for other in others for value in other.values]
        texts, number = index.values(term.name, conditions, bound, _MOST)
        if texts:
            among = " ".join(other.written for other in others)
            notes.append(f"{_start(term, among)}: {_listed(term.name, texts, number)}")
    return notes


def _start(term: Term, among: str) -> str:
    return f"no item has {term.written}; " + (
        f"of those with {among} the {term.name} is" if among else f"{term.name} is one of"
    )


def _listed(name: str, texts: Sequence[str], number: int) -> str:
    shown = [
        f"{text} ({own})" if name == "accelerator" and (own := catalog_name(text)) else text
        for text in texts
    ]
    rest = number - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")
