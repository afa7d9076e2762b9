"""Sweeps and searches over more points than one process should take, cut into parts.

A part names points; what runs it reads the question again. That it reads the same values is
checked: files and catalogs may differ between machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from assay.answers import Progress, silent
from assay.cluster import current
from assay.cluster.parts import Work
from assay.errors import InputError
from assay.model.optimizing.grid import EnumerationResult, grid_parts
from assay.model.optimizing.group import Group
from assay.model.optimizing.optimize import Enumerator, groups_of
from assay.model.optimizing.sweep import PreparedSweep, prepare_sweep
from assay.model.optimizing.sweep_summary import (
    SweepSummary,
    join_summary,
    summarize_part,
    summary_parts,
)
from assay.scenario.question import Given, Question, read_question
from assay.scenario.questions.ranges import read_axes, read_choices

_SWEEP: Final = f"{__name__}:sweep_task"
_SEARCH: Final = f"{__name__}:search_task"
MOST_PARTS: Final = 1_000_000
"""Parts at most: each is a file among those that are kept."""


def _digest(question: Question) -> str:
    values = sorted(question.inputs.values.items())
    words = [question.registry.key, values, sorted(question.variants.items())]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _read(shared: Mapping[str, Any]) -> Question:
    question = read_question(**shared["given"])
    if _digest(question) != shared["inputs"]:
        raise InputError(
            "the question has other values here than where it was cut into parts",
            "files that it names, and the catalog, must be the same on every node",
        )
    return question


def _checked(parts: Sequence[Any]) -> Sequence[Any]:
    if len(parts) > MOST_PARTS:
        raise InputError(f"the points make {len(parts):,} parts: expected at most {MOST_PARTS:,}")
    return parts


def sweep_summary(
    targets: Sequence[str],
    over: Sequence[str],
    question: Question,
    given: Given,
    *,
    switch: bool,
    workers: int | None = None,
    progress: Progress = silent,
) -> SweepSummary:
    """The summary of a sweep; its parts run in processes, or on the cluster of the job."""
    shared = {
        "targets": list(targets), "over": list(over), "given": _plain(given), "switch": switch,
        "inputs": _digest(question),
    }  # fmt: skip
    prepared = _prepared(shared, question)
    work = Work(_SWEEP, shared, _checked(summary_parts(prepared)))
    return join_summary(prepared, current.run(work, workers, progress))


def _prepared(shared: Mapping[str, Any], question: Question) -> PreparedSweep:
    return prepare_sweep(
        question.registry, shared["targets"], read_axes(shared["over"]), question.given,
        question.variants, switch=shared["switch"],
    )  # fmt: skip


def sweep_task(shared: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Parts of a sweep."""
    prepared = _prepared(shared, _read(shared))
    return lambda part: summarize_part(prepared, *part)


def search_enumerator(
    target: str,
    over: Sequence[str],
    question: Question,
    given: Given,
    *,
    maximize: bool,
    constraints: bool,
    switch: bool,
    workers: int | None,
    progress: Progress = silent,
) -> Enumerator:
    """Enumerates groups of choices in parts, in processes or on the cluster of the job."""
    shared = {
        "target": target, "over": list(over), "given": _plain(given), "maximize": maximize,
        "constraints": constraints, "switch": switch, "inputs": _digest(question),
    }  # fmt: skip

    def enumerated(
        place: tuple[int, int], group: Group, keep: int, told: Callable[[int, int], None]
    ) -> EnumerationResult:
        cut = grid_parts(group.conditions, group.grid)
        if len(cut) < 2:
            return group.enumerate(keep, told)
        parts = _checked([{"place": place, "between": each, "keep": keep} for each in cut])
        total: EnumerationResult | None = None
        for data in current.run(Work(_SEARCH, shared, parts), workers, progress):
            result = EnumerationResult.from_data(data)
            if total is None:
                total = result
            else:
                total.join(result, group.kept(keep))
        assert total is not None
        return total

    return enumerated


def search_task(shared: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Parts of a search."""
    question = _read(shared)
    choices = read_choices(question.registry, shared["over"]) if shared["over"] else {}
    group_at = cache(
        groups_of(
            question.registry, shared["target"], choices, question.given, question.variants,
            maximize=shared["maximize"], constraints=shared["constraints"],
            switch=shared["switch"],
        )
    )  # fmt: skip

    def enumerated(part: Mapping[str, Any]) -> dict[str, Any]:
        group = group_at(*part["place"])
        first, last = part["between"]
        return group.enumerate(part["keep"], between=(first, last)).to_data()

    return enumerated


def _plain(given: Given) -> dict[str, Any]:
    """What a question gives, as JSON has it."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None
    }
