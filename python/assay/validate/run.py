"""Predicts the cases of every kind, and scores the predictions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from assay.errors import InputError, unknown_name
from assay.validate.cases import KINDS, Case, published_cases, read_cases
from assay.validate.figure_records import GAPS
from assay.validate.score import Row, Score, score_pool, scores
from assay.validate.sources import source_of

Progress = Callable[[str], None]
ALL = "all"
FOLDERS = {"kernels": "kernels", "training": "training", "inference": "serving"}
"""Where the cases of a kind are predicted."""


def validate(
    suite: str = ALL,
    path: Path | None = None,
    tiers: str = "ABC",
    progress: Progress = lambda _: None,
) -> list[Score]:
    """Predict every case of a suite, of a kind, or all of them, and score the predictions.

    `suite` is `kernels`, `training`, `inference`, `all`, or the name of one suite.
    """
    cases = [case for case in read_cases(path or published_cases()) if case.tier in tiers]
    chosen = _chosen(suite, cases)
    if not chosen:
        raise InputError(
            f'no cases of "{suite}" in tiers {", ".join(tiers)}',
            f"suites: {', '.join(sorted({case.suite for case in cases})) or 'none'}",
        )
    results: list[Score] = []
    pools: list[Score] = []
    for name, kind in KINDS.items():
        group = [case for case in chosen if case.kind == kind]
        if not group:
            continue
        progress(f"predicting {len(group)} cases of {name}")
        part = scores(name, _predict(name, group))
        results += part
        pools.append(part[-1])
    if len(pools) > 1:
        results.append(score_pool(ALL, [score for score in results if score.is_suite]))
    return results


def rows_of(scores: Iterable[Score]) -> list[Row]:
    """Every row once: those of the suites."""
    return [row for score in scores if score.is_suite for row in score.rows]


def _chosen(suite: str, cases: Sequence[Case]) -> list[Case]:
    if suite == ALL:
        return list(cases)
    if suite in KINDS:
        return [case for case in cases if case.kind == KINDS[suite]]
    known = {case.suite for case in cases}
    if suite not in known:
        listing = "assay validate --suite all --summary lists every suite and group"
        raise unknown_name("suite", suite, [*KINDS, ALL, *sorted(known)], listing)
    return [case for case in cases if case.suite == suite]


def _predict(name: str, cases: Sequence[Case]) -> list[Row]:
    if name == "figures":
        return [row for case in cases for row in _unanswered(case)]
    module = importlib.import_module(f"assay.validate.{FOLDERS[name]}.predict")
    sources = {case.id: source_of(case) for case in cases}
    rows = [replace(row, source=sources[row.case]) for row in module.predict(cases)]
    predicted = {row.case for row in rows}
    return rows + [
        Row(
            case.id,
            case.suite,
            "nothing",
            "",
            0.0,
            None,
            gap="states no figure to predict",
            source=sources[case.id],
        )
        for case in cases
        if case.id not in predicted
    ]


def _unanswered(case: Case) -> list[Row]:
    """Figures of a kind that no question answers, each with the reason."""
    kind = str(case.inputs.get("kind"))
    return [
        Row(
            case.id, case.suite, name, case.units.get(name, ""), float(value), None,
            gap=f"{kind}: {GAPS.get(kind, 'no question of Assay answers it')}",
            source=source_of(case),
        )
        for name, value in case.observed.items()
    ]  # fmt: skip
