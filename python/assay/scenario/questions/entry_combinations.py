"""A scenario with every combination of catalog entries, where an axis is a group of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Unpack

from assay.errors import InputError
from assay.scenario.question import Given, Question, read_question

MAX_COMBINATIONS: Final = 1000
"""Most combinations of catalog entries; each is a scenario of its own."""


@dataclass(frozen=True)
class EntryCombination:
    """The question with one combination of catalog entries."""

    entries: tuple[str, ...]
    question: Question
    given: Given
    """What is given, the entries among it."""


def entry_combinations(
    catalog: Mapping[str, Sequence[str]], **given: Unpack[Given]
) -> list[EntryCombination]:
    """The question with every combination of the entries of these groups."""
    combinations = list(product(*catalog.values()))
    if len(combinations) > MAX_COMBINATIONS:
        raise InputError(
            f"{len(combinations):,} combinations of catalog entries: expected at most "
            f"{MAX_COMBINATIONS:,}"
        )
    return [_with_entries(catalog, names, given) for names in combinations]


def _with_entries(
    catalog: Mapping[str, Sequence[str]], names: tuple[str, ...], given: Given
) -> EntryCombination:
    paths = [f"{group}/{name}" for group, name in zip(catalog, names, strict=True)]
    others = [path for path in given.get("includes") or () if path.partition("/")[0] not in catalog]
    combined: Given = {**given, "includes": [*others, *paths]}
    return EntryCombination(names, read_question(**combined), combined)
