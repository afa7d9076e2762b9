"""Errors of predictions: by suite, by quantity, and pooled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.answers import data_of, plain_data


@dataclass(frozen=True)
class Row:
    """One observed figure of a case and its prediction, or the reason why there is none.

    `lo` and `hi` bound the 90 % interval; `terms` are named terms of the prediction, `baselines`
    the predictions of simpler rules, all in the unit of the figure. `notes` list the defaults
    assumed for what the case does not state. `in_sample` says that the case
    entered the fit of the constants; `held_out` is the prediction by constants fitted without
    the source of the case, where there are such, in the interval `held_out_lo` to `held_out_hi`.
    `group` is the group of figures that it is scored in beside its suite.
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
    in_sample: bool = False
    held_out: float | None = None
    held_out_lo: float | None = None
    held_out_hi: float | None = None
    source: str = ""
    group: str = ""

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
    def held_out_error(self) -> float | None:
        """The error of constants that have not seen the case; None where there are none."""
        if self.held_out is None and not self.in_sample:
            return self.error
        return _error(self.held_out, self.observed)

    @property
    def is_inside(self) -> bool | None:
        """Whether the interval holds what was observed; None where there is no interval."""
        if self.lo is None or self.hi is None:
            return None
        return self.lo <= self.observed <= self.hi

    @property
    def is_inside_held_out(self) -> bool | None:
        """Whether the held-out interval holds what was observed.

        Without an interval of its own, it is as wide as the one of the shipped constants.
        """
        if self.held_out_lo is not None and self.held_out_hi is not None:
            return self.held_out_lo <= self.observed <= self.held_out_hi
        if self.held_out is None and not self.in_sample:
            return self.is_inside
        if self.lo is None or self.hi is None or not self.predicted or self.held_out is None:
            return None
        scale = self.held_out / self.predicted
        return scale * self.lo <= self.observed <= scale * self.hi

    def to_data(self) -> dict[str, Any]:
        """The row as plain data."""
        return data_of(
            self,
            "case suite quantity unit observed predicted lo hi error terms baselines gap "
            "notes in_sample held_out held_out_lo held_out_hi held_out_error source group",
        )


@dataclass(frozen=True)
class Errors:
    """Summary of absolute relative errors."""

    count: int
    mape: float
    median: float
    p90: float

    @classmethod
    def of(cls, errors: Iterable[float | None]) -> Errors | None:
        """Mean, median and 90th percentile of the errors that are not None; None without any."""
        known = (error for error in errors if error is not None)
        sizes = np.abs(np.fromiter(known, dtype=np.float64))
        if not len(sizes):
            return None
        return cls(
            len(sizes), float(sizes.mean()), float(np.median(sizes)), float(np.quantile(sizes, 0.9))
        )

    @classmethod
    def macro(cls, parts: Iterable[Errors | None]) -> Errors | None:
        """The unweighted mean of each statistic over several groups."""
        known = [part for part in parts if part is not None]
        if not known:
            return None
        return cls(
            sum(part.count for part in known),
            *(float(np.mean([getattr(p, name) for p in known])) for name in _FIGURES),
        )

    def to_data(self) -> dict[str, Any]:
        """The errors as plain data."""
        return {"cases": self.count, "mape": self.mape, "median": self.median, "p90": self.p90}


_FIGURES = ("mape", "median", "p90")


@dataclass(frozen=True)
class Score:
    """The score of one suite, of one quantity of it, or of a pool of suites.

    `errors` are those of the constants that Assay ships. `in_sample` are the errors among them of
    figures that entered the fit of these constants; `held_out` are the errors of constants that
    have not seen the figure. A pool's errors are means over its suites, so that a suite of many
    cases weighs no more than a small one.
    """

    name: str
    rows: tuple[Row, ...]
    errors: Errors | None
    in_sample: Errors | None
    held_out: Errors | None
    baselines: dict[str, Errors]
    coverage90: float | None
    held_out_coverage90: float | None
    in_sample_coverage90: float | None = None
    is_pool: bool = False

    @property
    def is_suite(self) -> bool:
        """Whether it is a whole suite: neither one of its quantities nor a pool."""
        return not self.is_pool and "/" not in self.name

    @property
    def cases(self) -> int:
        """Number of cases."""
        return len({row.case for row in self.rows})

    @property
    def covered(self) -> int:
        """Number of cases with all figures predicted."""
        gaps = {row.case for row in self.rows if row.predicted is None}
        return self.cases - len(gaps)

    def to_data(self) -> dict[str, Any]:
        """The score as plain data; a pool refers to its suites' rows instead of repeating them."""
        errors = self.errors
        return {
            "suite": self.name,
            "pool": self.is_pool,
            **data_of(self, "cases covered"),
            **{name: errors and getattr(errors, name) for name in _FIGURES},
            **data_of(
                self,
                "coverage90 in_sample held_out held_out_coverage90 in_sample_coverage90 baselines",
            ),
            "rows": [] if self.is_pool else plain_data(self.rows),
        }


def score_suite(name: str, rows: Sequence[Row]) -> Score:
    """Score the rows of one suite, or a part of them."""
    baselines = {}
    for baseline in sorted({name for row in rows for name in row.baselines}):
        baseline_errors = [_error(row.baselines.get(baseline), row.observed) for row in rows]
        if (errors := Errors.of(baseline_errors)) is not None:
            baselines[baseline] = errors
    return Score(
        name,
        tuple(rows),
        Errors.of(row.error for row in rows),
        Errors.of(row.error for row in rows if row.in_sample),
        Errors.of(row.held_out_error for row in rows),
        baselines,
        _mean(row.is_inside for row in rows),
        _mean(row.is_inside_held_out for row in rows),
        _mean(row.is_inside for row in rows if row.in_sample),
    )


def score_pool(name: str, suites: Sequence[Score]) -> Score:
    """The mean over several suites."""
    names = sorted({baseline for suite in suites for baseline in suite.baselines})
    baselines = {}
    for baseline in names:
        parts = [suite.baselines.get(baseline) for suite in suites]
        if (errors := Errors.macro(parts)) is not None:
            baselines[baseline] = errors
    return Score(
        name,
        tuple(row for suite in suites for row in suite.rows),
        Errors.macro(suite.errors for suite in suites),
        Errors.macro(suite.in_sample for suite in suites),
        Errors.macro(suite.held_out for suite in suites),
        baselines,
        _mean(suite.coverage90 for suite in suites),
        _mean(suite.held_out_coverage90 for suite in suites),
        _mean(suite.in_sample_coverage90 for suite in suites),
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
    results = list(suites)
    by_quantity: dict[str, list[Score]] = {}
    for suite in suites:
        predicted = [row for row in suite.rows if row.predicted is not None]
        quantities = list(dict.fromkeys(row.quantity for row in predicted))
        for quantity in quantities:
            part = [row for row in predicted if row.quantity == quantity]
            score = score_suite(f"{suite.name}/{quantity}", part)
            by_quantity.setdefault(quantity, []).append(score)
            if len(quantities) > 1:
                results.append(score)
    if len(by_quantity) > 1:
        results += [score_pool(f"{pool}/{name}", parts) for name, parts in by_quantity.items()]
    return [*results, score_pool(pool, suites)] if suites else []


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _error(predicted: float | None, observed: float) -> float | None:
    if predicted is None or not observed:
        return None
    error = predicted / observed - 1
    return error if math.isfinite(error) else None
