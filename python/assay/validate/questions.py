"""The question how well published figures are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.answers import Answer, Progress, silent
from assay.errors import InputError
from assay.validate.cases import published_cases, read_cases
from assay.validate.groups import GroupScore, score_groups
from assay.validate.leaderboard import Board, leaderboard
from assay.validate.run import ALL, rows_of, validate
from assay.validate.score import Score
from assay.validate.worst import Miss, worst as largest_misses


@dataclass(frozen=True)
class ValidateAnswer(Answer):
    """Scores of suites and of groups of figures, the largest misses that were asked for, and other tools."""

    groups: Sequence[GroupScore]
    scores: Sequence[Score]
    worst: Sequence[Miss]
    leaderboard: Sequence[Board]


def score_cases(
    suite: str = ALL,
    cases: Path | None = None,
    tier: str = "ABC",
    *,
    worst: int | None = None,
    progress: Progress = silent,
) -> ValidateAnswer:
    """Predict published figures, or those of a file, and score the predictions.

    `suite` is a kind of cases, one suite or `all`; `worst` explains that many of the largest
    misses.
    """
    if not tier or set(tier) - set("ABC"):
        raise InputError(f'expected tiers out of A, B and C, got "{tier}"', "such as --tier AB")
    scores = validate(suite, cases, tier, progress)
    misses: list[Miss] = []
    if worst is not None:
        progress(f"explaining the {worst} largest misses")
        misses = largest_misses(rows_of(scores), read_cases(cases or published_cases()), worst)
    rows = rows_of(scores)
    return ValidateAnswer(score_groups(rows), scores, misses, leaderboard(rows))
