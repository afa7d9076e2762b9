"""Which series move before a target does: tests of lagged dependence, corrected for their number.

For each candidate series one regression of the target on its own past, on all lags of the candidate
and on the lags of other candidates that were selected. A coefficient is then the part of the link
that neither the past of the target nor that of the candidate accounts for, as in PCMCI (J. Runge et
al., Science Advances 5, 2019): autocorrelation alone does not make a discovery.

Series need not be stationary. Every regression has one lag more than it tests, of the target and of
the candidate, and a linear trend; tests of the others then have their usual distribution for
stationary, trending and random-walk series alike (H. Toda, T. Yamamoto, J. Econometrics 66, 1995),
and no test for a unit root has to be trusted first. Standard errors hold under heteroscedasticity
and autocorrelation (`long_run`): Newey and West's reject too often at the lengths of a recording,
which a correction for many tests, with its small p-values, makes worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from assay.array_types import Floats
from assay.errors import InputError, unknown_name
from assay.lazy_import import LazyModule, pl
from assay.long_run import long_run_degrees, long_run_error

stats: Any = LazyModule("scipy.stats", globals(), "stats")


FALSE_DISCOVERY_RATE: Final = 0.05
"""Share of the discoveries that may be false, on average."""

CORRECTIONS: Final = ("bh", "by")
"""Benjamini and Hochberg; Benjamini and Yekutieli, which holds under any dependence of the tests."""

_SELECT_P: Final = 0.01
_MAX_OTHERS: Final = 12
_ROWS_PER_COLUMN: Final = 4


@dataclass(frozen=True, slots=True)
class Dependence:
    """A series whose past, at one lag, says something about the target that nothing else does."""

    series: str
    target: str
    lag: int
    """In samples: the series moves first. At lag 0 the order of the two is not known."""
    sign: int
    effect: float
    """Standard deviations of the target's innovation per standard deviation of the series'."""
    slope: float
    """In units of the target per unit of the series."""
    p_value: float
    q_value: float
    """The least false discovery rate at which it is a discovery."""

    def __str__(self) -> str:
        when = (
            "in the same sample"
            if self.lag == 0
            else f"{self.lag} sample{'s' * (self.lag > 1)} later"
        )
        way = "rises" if self.sign > 0 else "falls"
        return (
            f"where {self.series} rises, {self.target} {way} {when} "
            f"(effect {self.effect:+.2f}, q {self.q_value:.2g})"
        )


@dataclass(frozen=True, slots=True)
class Screen:
    """The discoveries, the surest first, and what could not be tested."""

    dependences: tuple[Dependence, ...]
    tests: int
    """How many pairs of series and lag were tested, and corrected for."""
    samples: int
    degradations: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Dependence]:
        return iter(self.dependences)

    def __len__(self) -> int:
        return len(self.dependences)


def lagged_screen(
    table: pl.DataFrame,
    target: str,
    max_lag: int,
    *,
    min_lag: int = 1,
    rate: float = FALSE_DISCOVERY_RATE,
    correction: str = "bh",
) -> Screen:
    """The columns of `table` (evenly spaced samples, in order) on whose past `target` depends.

    `min_lag=0` tests the same sample too, which cannot tell cause from consequence.
    """
    if target not in table.columns:
        raise unknown_name("column", target, table.columns)
    if correction not in CORRECTIONS:
        raise unknown_name("correction", correction, CORRECTIONS)
    if not 0 <= min_lag <= max_lag:
        raise InputError(f"max_lag: expected at least min_lag {min_lag} and 0, got {max_lag}")
    names, values, notes = _usable(table, target)
    outcome = values[target]
    if not names:
        return Screen((), 0, len(outcome), tuple(notes))
    past = _Past(outcome, {name: values[name] for name in names}, min_lag, max_lag)
    past.check()
    tests = [test for name in names for test in past.test(name)]
    p_values = np.array([test.p_value for test in tests])
    q_values = stats.false_discovery_control(p_values, method=correction)
    dependences = [
        Dependence(
            test.series, target, test.lag, 1 if test.slope > 0.0 else -1, test.effect, test.slope,
            float(test.p_value), float(q),
        )
        for test, q in zip(tests, q_values, strict=True)
        if q <= rate
    ]  # fmt: skip
    dependences.sort(key=lambda dependence: (dependence.q_value, dependence.p_value))
    return Screen(tuple(dependences), len(tests), past.rows, tuple(notes))


def _usable(table: pl.DataFrame, target: str) -> tuple[list[str], dict[str, Floats], list[str]]:
    """Candidates that vary, every column as floats with NaN for a gap, and what was left out."""
    notes: list[str] = []
    values: dict[str, Floats] = {}
    for name in table.columns:
        column = table[name]
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            notes.append(f"{name}: not tested, expected numbers, got {column.dtype}")
            continue
        data = column.cast(pl.Float64).to_numpy().copy()
        data[~np.isfinite(data)] = np.nan
        present = data[~np.isnan(data)]
        if len(present) == 0 or np.ptp(present) == 0.0:
            notes.append(f"{name}: not tested, it does not vary")
            continue
        values[name] = data
    if target not in values:
        raise InputError(f'target "{target}": expected numbers that vary, got none')
    return [name for name in values if name != target], values, notes


@dataclass(frozen=True, slots=True)
class _Test:
    series: str
    lag: int
    slope: float
    effect: float
    p_value: float


class _Past:
    """The target and its candidates, with their lags as columns; rows with a gap are left out."""

    def __init__(
        self, outcome: Floats, series: dict[str, Floats], min_lag: int, max_lag: int
    ) -> None:
        # One lag more than is tested, after Toda and Yamamoto.
        depth = max_lag + 1
        count = len(outcome)
        self.min_lag, self.max_lag = min_lag, max_lag
        lagged = {
            (name, lag): data[depth - lag : count - lag]
            for name, data in series.items()
            for lag in range(min_lag, depth + 1)
        }
        own = [outcome[depth - lag : count - lag] for lag in range(1, depth + 1)]
        target = outcome[depth:]
        whole = ~np.isnan(np.stack([target, *own, *lagged.values()])).any(axis=0)
        self.rows = int(whole.sum())
        self.target = target[whole]
        trend = np.linspace(-1.0, 1.0, len(target))[whole]
        self.own = np.stack([np.ones(self.rows), trend, *(column[whole] for column in own)], axis=1)
        self.lagged = {key: column[whole] for key, column in lagged.items()}
        self._selected: list[tuple[str, int]] | None = None

    def check(self) -> None:
        """Refuse a regression with hardly more rows than columns."""
        columns = self.own.shape[1] + self.max_lag + 2 - self.min_lag
        if self.rows < _ROWS_PER_COLUMN * columns:
            raise InputError(
                f"lagged dependence: expected at least {_ROWS_PER_COLUMN * columns} samples without gaps "
                f"for lags up to {self.max_lag}, got {self.rows}",
                "record for longer, or ask for fewer lags",
            )

    def test(self, name: str) -> list[_Test]:
        """Every lag of one candidate, tested in one regression."""
        lags = range(self.min_lag, self.max_lag + 2)
        mine = [self.lagged[name, lag] for lag in lags]
        room = self.rows // _ROWS_PER_COLUMN - self.own.shape[1] - len(mine)
        others = [key for key in self.selected() if key[0] != name][: max(room, 0)]
        design = np.concatenate(
            [self.own, np.stack(mine + [self.lagged[key] for key in others], axis=1)], axis=1
        )
        slopes, errors, innovations, noise = _regression(self.target, design)
        dependences = []
        for offset, lag in enumerate(lags[:-1]):
            at = self.own.shape[1] + offset
            dependences.append(
                _Test(
                    name,
                    lag,
                    float(slopes[at]),
                    float(slopes[at] * innovations[at] / noise) if noise > 0.0 else 0.0,
                    _p_value(float(slopes[at]), errors(at), self.rows),
                )
            )
        return dependences

    def selected(self) -> list[tuple[str, int]]:
        """Lags of all candidates that forward selection finds: what tests of others condition on."""
        if self._selected is None:
            self._selected = self._select()
        return self._selected

    def _select(self) -> list[tuple[str, int]]:
        keys = list(self.lagged)
        columns = np.stack([self.lagged[key] for key in keys], axis=1)
        basis = np.linalg.qr(self.own)[0]
        residual = self.target - basis @ (basis.T @ self.target)
        rest = columns - basis @ (basis.T @ columns)
        least = np.linalg.norm(columns - columns.mean(axis=0), axis=0) * 1e-6
        chosen: list[tuple[str, int]] = []
        # Bonferroni over the candidates: a condition too many costs power and adds noise.
        bound = -NormalDist().inv_cdf(_SELECT_P / (2.0 * len(keys)))
        while len(chosen) < _MAX_OTHERS:
            norms = np.linalg.norm(rest, axis=0)
            usable = norms > least
            correlation = np.zeros(len(keys))
            correlation[usable] = (rest[:, usable].T @ residual) / (
                norms[usable] * np.linalg.norm(residual)
            )
            best = int(np.argmax(np.abs(correlation)))
            strength = abs(float(correlation[best]))
            freedom = self.rows - self.own.shape[1] - len(chosen) - 1
            if strength * math.sqrt(freedom) < bound * math.sqrt(max(1.0 - strength**2, 1e-12)):
                break
            chosen.append(keys[best])
            direction = rest[:, best] / norms[best]
            residual = residual - direction * (direction @ residual)
            rest = rest - np.outer(direction, direction @ rest)
            rest[:, best] = 0.0
        return chosen


def _regression(
    target: Floats, design: Floats
) -> tuple[Floats, Callable[[int], float], Floats, float]:
    """Slopes of all columns, the standard error of one, each column's innovation, the noise."""
    scale = design.std(axis=0)
    scale[scale == 0.0] = 1.0
    scaled = design / scale
    # A pseudo-inverse: a column that the others make up has slope zero, not a huge one.
    inverse = np.linalg.pinv(scaled.T @ scaled, rcond=1e-10, hermitian=True)
    slopes = inverse @ (scaled.T @ target)
    leverage = np.einsum("ij,jk,ik->i", scaled, inverse, scaled, optimize=True)
    residual = target - scaled @ slopes
    # HC3: a residual at a sample that pulls the fit to itself is too small.
    adjusted = residual / np.maximum(1.0 - leverage, 0.05)
    diagonal = np.maximum(np.diag(inverse), 0.0)

    def standard_error(at: int) -> float:
        if diagonal[at] <= 0.0:
            return math.inf
        scores = (scaled @ inverse[:, at]) * adjusted * len(target)
        return long_run_error(scores) / float(scale[at])

    spread = np.divide(1.0, np.sqrt(diagonal * len(target)), where=diagonal > 0.0, out=diagonal * 0)
    return slopes / scale, standard_error, spread * scale, float(residual.std())


def _p_value(slope: float, error: float, rows: int) -> float:
    """Two-sided, of Student's t with the degrees of freedom of the standard error."""
    if not 0.0 < error < math.inf:
        return 1.0
    return 2.0 * float(stats.t.sf(abs(slope) / error, long_run_degrees(rows)))
