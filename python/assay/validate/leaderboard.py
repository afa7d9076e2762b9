"""The published figures by Assay and by other tools and rules: what each answers, how well, and how surely.

Assay's predictions are those of constants that never saw the source. A tool is compared with Assay on the figures
that both answer: one that answers only what is easy gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from assay.answers import data_of
from assay.validate.groups import BARS, SERVING
from assay.validate.score import Row
from assay.validate.serving.deployments import LOADED, QUANTITIES

OWN = "assay"
TOOLS = ("aiconfigurator", "roofline", "constant_mfu", "rule_6nd")
"""Others, by their names among the baselines of a row."""

_MISS = 2 / 0.1
"""What an interval of 90 % pays for a figure outside of it, by its distance."""


@dataclass(frozen=True)
class Entry:
    """One tool in one group; `own_median` is Assay's on the figures that the tool answers."""

    tool: str
    answered: int
    median: float | None
    interval_score: float | None
    """Mean of width and misses of the 90 % intervals, as logarithms; a tool without intervals has no width."""
    own_median: float | None

    def to_data(self) -> dict[str, Any]:
        """The entry as plain data."""
        return data_of(self, "tool answered median interval_score own_median")


@dataclass(frozen=True)
class Board:
    """All tools in one group of figures, and how many of them do better than Assay where both answer."""

    group: str
    figures: int
    entries: tuple[Entry, ...]

    @property
    def rank(self) -> int:
        """1 where no other tool has a smaller median error on the figures that both answer."""
        return 1 + sum(
            entry.median < entry.own_median
            for entry in self.entries[1:]
            if entry.median is not None and entry.own_median is not None
        )

    @property
    def coverage(self) -> float:
        """The share of figures that Assay answers."""
        return self.entries[0].answered / self.figures

    def to_data(self) -> dict[str, Any]:
        """The board as plain data."""
        return data_of(self, "group figures rank coverage entries")


def leaderboard(rows: Sequence[Row]) -> list[Board]:
    """One board a group that has figures, in the order of the bars."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(_group(row), []).append(row)
    return [_board(name, by_group[name]) for name in BARS if name in by_group]


def _group(row: Row) -> str:
    """The group of a row; of one without a prediction, the group that its figure would be in."""
    if row.group or row.predicted is not None:
        return row.group
    if row.quantity in LOADED:
        return LOADED[row.quantity][2]
    known = QUANTITIES.get(row.quantity)
    return SERVING.get(known[0], "") if known else ""


def _board(name: str, rows: Sequence[Row]) -> Board:
    tools = [tool for tool in TOOLS if any(row.baselines.get(tool) for row in rows)]
    return Board(name, len(rows), (_own(rows), *(_entry(tool, rows) for tool in tools)))


def _own(rows: Sequence[Row]) -> Entry:
    errors = [error for row in rows if (error := _own_error(row)) is not None]
    scores = [score for row in rows if (score := _own_score(row)) is not None]
    typical = median(errors) if errors else None
    return Entry(OWN, len(errors), typical, _mean(scores), typical)


def _entry(tool: str, rows: Sequence[Row]) -> Entry:
    answered = [row for row in rows if row.baselines.get(tool, 0.0) > 0 and row.observed > 0]
    own = [error for row in answered if (error := _own_error(row)) is not None]
    return Entry(
        tool,
        len(answered),
        median(abs(row.baselines[tool] / row.observed - 1) for row in answered),
        _mean(_score(row.baselines[tool], row.baselines[tool], row.observed) for row in answered),
        median(own) if own else None,
    )


def _own_error(row: Row) -> float | None:
    error = row.held_out_error
    return None if error is None else abs(error)


def _own_score(row: Row) -> float | None:
    """The interval score of the left-out interval, else of the shipped one."""
    lo, hi = row.held_out_lo or row.lo, row.held_out_hi or row.hi
    if not lo or not hi or row.observed <= 0:
        return None
    return _score(lo, hi, row.observed)


def _score(lo: float, hi: float, observed: float) -> float:
    """Gneiting and Raftery 2007, Strictly Proper Scoring Rules, eq. 43, on logarithms.

    >>> round(_score(1.0, 1.0, math.e), 1)
    20.0
    """
    below, above = math.log(lo / observed), math.log(observed / hi)
    return math.log(hi / lo) + _MISS * (max(below, 0.0) + max(above, 0.0))


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None
