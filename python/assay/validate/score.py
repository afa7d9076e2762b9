"""How far predictions are from what was observed: by suite, by quantity, and pooled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One observed figure of a case beside its prediction, or the reason why there is none.

    `lo` and `hi` bound the interval that holds nine in ten; `terms` are named parts of the
    prediction, `baselines` what simpler rules predict, all in the unit of the figure. `notes`
    say which defaults stood in for what the case does not state.
    """

    case: str
    suite: str
    quantity: str
    unit: str
    observed: float
    predicted: float | None
    lo: float | None = None
    hi: float | None = None
    terms: dict[str, float] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)
    gap: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.predicted is None) != bool(self.gap):
            raise ValueError(f"{self.case}: either a prediction or the reason why there is none")
        if self.predicted is not None and not math.isfinite(self.predicted):
            raise ValueError(f"{self.case}: predicted {self.predicted} is no figure")

    @property
    def error(self) -> float | None:
        """Predicted over observed, less one."""
        return _error(self.predicted, self.observed)

    @property
    def is_inside(self) -> bool | None:
        """Whether the interval holds what was observed; None where there is no interval."""
        if self.lo is None or self.hi is None:
            return None
        return self.lo <= self.observed <= self.hi

    def to_data(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "case": self.case, "suite": self.suite, "quantity": self.quantity, "unit": self.unit,
            "observed": self.observed, "predicted": self.predicted, "lo": self.lo, "hi": self.hi,
            "error": self.error, "terms": self.terms, "baselines": self.baselines,
            "gap": self.gap, "notes": list(self.notes),
        }  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors in short."""

    count: int
    mape: float
    median: float
    p90: float

    @classmethod
    def of(cls, errors: Iterable[float]) -> Errors | None:
        """Mean, median and ninth decile; None without any error."""
        sizes = np.abs(np.fromiter(errors, dtype=np.float64))
        if not len(sizes):
            return None
        return cls(
            len(sizes), float(sizes.mean()), float(np.median(sizes)), float(np.quantile(sizes, 0.9))
        )

    @classmethod
    def macro(cls, parts: Sequence[Errors]) -> Errors | None:
        """The mean of each figure over several groups, however large each group is."""
        if not parts:
            return None
        return cls(
            sum(part.count for part in parts),
            *(float(np.mean([getattr(p, name) for p in parts])) for name in _FIGURES),
        )


_FIGURES = ("mape", "median", "p90")


@dataclass(frozen=True)
class Score:
    """The verdict on one suite, on one quantity of it, or on a pool of suites.

    A pool's errors are means over its suites, so that a suite of many cases weighs no more
    than a small one.
    """

    name: str
    rows: tuple[Row, ...]
    errors: Errors | None
    baselines: dict[str, Errors]
    coverage90: float | None
    is_pool: bool = False

    @property
    def cases(self) -> int:
        """Cases that were asked about."""
        return len({row.case for row in self.rows})

    @property
    def covered(self) -> int:
        """Cases of which every figure was predicted."""
        gaps = {row.case for row in self.rows if row.predicted is None}
        return self.cases - len(gaps)

    def to_data(self) -> dict[str, Any]:
        """The score as plain data; a pool refers to its suites' rows instead of repeating them."""
        errors = self.errors
        return {
            "suite": self.name, "pool": self.is_pool, "cases": self.cases, "covered": self.covered,
            "mape": errors and errors.mape, "median": errors and errors.median,
            "p90": errors and errors.p90, "coverage90": self.coverage90,
            "baselines": {
                name: {"cases": e.count, "mape": e.mape, "median": e.median, "p90": e.p90}
                for name, e in self.baselines.items()
            },
            "rows": [] if self.is_pool else [row.to_data() for row in self.rows],
        }  # fmt: skip


def score_suite(name: str, rows: Sequence[Row]) -> Score:
    """Score the rows of one suite, or a part of them."""
    baselines = {}
    for baseline in sorted({name for row in rows for name in row.baselines}):
        found = [
            error
            for row in rows
            if (error := _error(row.baselines.get(baseline), row.observed)) is not None
        ]
        if (errors := Errors.of(found)) is not None:
            baselines[baseline] = errors
    inside = [row.is_inside for row in rows if row.is_inside is not None]
    return Score(
        name,
        tuple(rows),
        Errors.of(row.error for row in rows if row.error is not None),
        baselines,
        float(np.mean(inside)) if inside else None,
    )


def score_pool(name: str, suites: Sequence[Score]) -> Score:
    """The mean over several suites."""
    names = sorted({baseline for suite in suites for baseline in suite.baselines})
    baselines = {}
    for baseline in names:
        parts = [suite.baselines[baseline] for suite in suites if baseline in suite.baselines]
        if (errors := Errors.macro(parts)) is not None:
            baselines[baseline] = errors
    covered = [suite.coverage90 for suite in suites if suite.coverage90 is not None]
    return Score(
        name,
        tuple(row for suite in suites for row in suite.rows),
        Errors.macro([suite.errors for suite in suites if suite.errors is not None]),
        baselines,
        float(np.mean(covered)) if covered else None,
        is_pool=True,
    )


def scores(pool: str, rows: Sequence[Row]) -> list[Score]:
    """One score per suite, one per quantity of a suite that has several, then pools.

    There is a pool for each quantity, where there are several, and one for all suites.
    """
    suites = [
        score_suite(name, [row for row in rows if row.suite == name])
        for name in dict.fromkeys(row.suite for row in rows)
    ]
    found = list(suites)
    by_quantity: dict[str, list[Score]] = {}
    for suite in suites:
        predicted = [row for row in suite.rows if row.predicted is not None]
        quantities = list(dict.fromkeys(row.quantity for row in predicted))
        for quantity in quantities:
            part = [row for row in predicted if row.quantity == quantity]
            score = score_suite(f"{suite.name}/{quantity}", part)
            by_quantity.setdefault(quantity, []).append(score)
            if len(quantities) > 1:
                found.append(score)
    if len(by_quantity) > 1:
        found += [score_pool(f"{pool}/{name}", parts) for name, parts in by_quantity.items()]
    return [*found, score_pool(pool, suites)] if suites else []


def _error(predicted: float | None, observed: float) -> float | None:
    if predicted is None or not observed:
        return None
    error = predicted / observed - 1
    return error if math.isfinite(error) else None
