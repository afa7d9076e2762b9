"""A trace against healthy ones: which operations take longer than they did, and by how much.

Steps are the observations. Each kernel of an operation (by layer, name and order) is compared with
itself: the logarithm of its time over its median, averaged over the operation's kernels with weights
of their precision, is one number a step. The Wilcoxon-Mann-Whitney test compares these numbers
between the two traces; p-values are corrected over all operations by Holm's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from assay.array_types import Floats
from assay.diagnose.residuals import Residuals
from assay.diagnose.terms import TERMS
from assay.errors import InputError
from assay.lazy_import import LazyModule, pl

stats: Any = LazyModule("scipy.stats", globals(), "stats")


FAMILY_ERROR: Final = 0.1
"""Chance of any false alarm over all operations, before the smallest change is asked for."""
SMALLEST: Final = 0.04
"""A relative change below this is no alarm: healthy recordings drift by up to 3 %."""
POWER: Final = 0.95
"""Share of cases in which a slowdown of the stated smallest size is found."""
FEWEST: Final = 5
"""Steps that each side needs."""
MATCHED: Final = 0.9
"""Share of an operation's time whose kernels both sides must have, to compare kernel by kernel."""
RESOLUTION: Final = 0.01
"""Least spread that is believed of a kernel's time, relative: clocks of tracers tick."""


@dataclass(frozen=True, slots=True)
class BaselineChange:
    """What became of the time of one operation, or of one term of the waterfall."""

    name: str
    kind: str
    """operation or term."""
    verdict: str
    """slower, faster, or unchanged as far as the smallest detectable change says."""
    baseline_ns: float
    """Median a step, of the baseline and of the trace."""
    observed_ns: float
    ratio: float
    """Observed over baseline: the median over all pairs of steps (Hodges-Lehmann)."""
    p_value: float
    """Of the change in its direction, corrected over the family."""
    smallest: float
    """The slowdown that would have been found in 95 % of cases, relative."""
    how: str
    """kernel by kernel, or in total where the two run different kernels."""


def compare_to_baseline(
    residuals: Residuals, baseline: Residuals | Sequence[Residuals], *, phase: str = "decode"
) -> list[BaselineChange]:
    """Compare the steps of a phase with those of one or more healthy traces; slowest first."""
    healthy = [baseline] if isinstance(baseline, Residuals) else list(baseline)
    if not healthy:
        raise InputError("compare_to_baseline: expected a baseline, got none")
    observed = _kernels([residuals], phase)
    before = _kernels(healthy, phase)
    for name, table in (("trace", observed), ("baseline", before)):
        count = table["step"].n_unique()
        if count < FEWEST:
            raise InputError(
                f"compare_to_baseline: expected at least {FEWEST} whole {phase} steps of the "
                f"{name}, got {count}"
            )
    operations = [
        _operation(name, observed, before)
        for name in sorted(set(observed["operation"].unique()) & set(before["operation"].unique()))
    ]
    steps = _steps([residuals], phase), _steps(healthy, phase)
    terms = [
        _compare(name, "term", ours[:, None], theirs[:, None], "in total")
        for name in ("observed_ns", *TERMS)
        if (ours := steps[0][name].to_numpy().astype(float)).min() > 0
        and (theirs := steps[1][name].to_numpy().astype(float)).min() > 0
    ]
    changes = [change for family in (operations, terms) for change in _judged(family)]
    return sorted(
        changes, key=lambda change: (change.kind, -(change.observed_ns - change.baseline_ns))
    )


def _steps(traces: Sequence[Residuals], phase: str) -> pl.DataFrame:
    return pl.concat(
        [
            trace.steps.filter((pl.col("phase") == phase) & pl.col("is_whole")).select(
                "observed_ns", *TERMS
            )
            for trace in traces
        ]
    )


def _kernels(traces: Sequence[Residuals], phase: str) -> pl.DataFrame:
    """Kernels with what tells one from the others of its step; steps of all traces numbered."""
    parts = []
    for number, traced in enumerate(traces):
        names = traced.trace.events.lazy().select("name").with_row_index("row")
        parts.append(
            traced.kernels.lazy()
            .filter(
                (pl.col("phase") == phase) & pl.col("is_whole") & pl.col("operation").is_not_null()
            )
            .with_columns(pl.col("row").cast(pl.UInt32))
            .join(names, on="row", maintain_order="left")
            .sort("start_ns")
            .select(
                pl.struct(pl.lit(number), "rank", "device", "step").alias("step"),
                "operation",
                pl.col("layer").fill_null(-1),
                pl.col("name").cast(pl.String),
                pl.col("dur_ns").cast(pl.Float64),
            )
            .with_columns(
                place=pl.struct(
                    "layer",
                    "name",
                    pl.int_range(pl.len()).over("step", "operation", "layer", "name").alias("at"),
                )
            )
            .collect()
        )
    return pl.concat(parts)


def _operation(name: str, observed: pl.DataFrame, before: pl.DataFrame) -> _Compared:
    ours = observed.filter(pl.col("operation") == name)
    theirs = before.filter(pl.col("operation") == name)
    kept = [ours.join(theirs, on="place", how="semi"), theirs.join(ours, on="place", how="semi")]
    shares = [
        float(part["dur_ns"].sum()) / max(float(table["dur_ns"].sum()), 1.0)
        for part, table in zip(kept, (ours, theirs), strict=True)
    ]
    if min(shares) >= MATCHED:
        return _compare(name, "operation", *_matrices(*kept), "kernel by kernel")
    totals = [
        table.group_by("step").agg(pl.col("dur_ns").sum())["dur_ns"].to_numpy()[:, None]
        for table in (ours, theirs)
    ]
    return _compare(name, "operation", totals[0], totals[1], "in total")


def _matrices(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[Floats, Floats]:
    """Times by step and kernel of both sides; NaN where a step lacks a kernel."""
    places = pl.concat([ours, theirs]).select("place").unique(maintain_order=True)
    numbered = places.with_row_index("column")
    matrices = []
    for table in (ours, theirs):
        rows = table.join(numbered, on="place", maintain_order="left")
        step = rows["step"].rank("dense").to_numpy().astype(np.int64) - 1
        matrix = np.full((int(step.max()) + 1, places.height), np.nan)
        matrix[step, rows["column"].to_numpy()] = rows["dur_ns"].to_numpy()
        matrices.append(matrix)
    # A kernel that half of the steps lack says nothing of the others.
    present = [np.isfinite(matrix).mean(axis=0) >= 0.5 for matrix in matrices]
    return matrices[0][:, present[0] & present[1]], matrices[1][:, present[0] & present[1]]


@dataclass(frozen=True, slots=True)
class _Compared:
    change: BaselineChange
    slower: float
    faster: float
    noise: float
    """Standard error of the difference between the two sides, of logarithms."""


def _compare(name: str, kind: str, observed: Floats, before: Floats, how: str) -> _Compared:
    """One operation: matrices of steps and kernels."""
    typical = np.nanmedian(np.concatenate([observed, before]), axis=0)
    logs = [np.log(np.maximum(times, 1.0) / typical) for times in (observed, before)]
    spread = np.nanmedian(
        np.abs(np.concatenate([log - np.nanmedian(log, axis=0) for log in logs])), axis=0
    )
    precision = 1.0 / (1.4826 * spread + RESOLUTION) ** 2
    ours, theirs = (_weighted(log, precision) for log in logs)
    slower = float(stats.mannwhitneyu(ours, theirs, alternative="greater").pvalue)
    faster = float(stats.mannwhitneyu(ours, theirs, alternative="less").pvalue)
    timed = [_weighted(log, typical) for log in logs]
    ratio = float(np.exp(np.median(timed[0][:, None] - timed[1][None, :])))
    noise = float(np.hypot(_deviation(ours), _deviation(theirs)) / np.sqrt(2))
    totals = [float(np.median(np.nansum(times, axis=1))) for times in (before, observed)]
    noise *= float(np.sqrt(1 / len(ours) + 1 / len(theirs)))
    change = BaselineChange(
        name, kind, "unchanged", totals[0], totals[1], ratio, 1.0, SMALLEST, how
    )
    return _Compared(change, slower, faster, noise)


def _weighted(logs: Floats, weight: Floats) -> Floats:
    present = np.isfinite(logs)
    total = np.where(present, logs, 0.0) @ weight
    weighted: Floats = total / np.maximum(present @ weight, 1e-300)
    return weighted


def _deviation(values: Floats) -> float:
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def _smallest(noise: float, tests: int) -> float:
    """The slowdown that the test finds with the power asked for.

    The normal approximation of the test's power, whose efficiency is 3/pi of the t-test's.
    """
    quantiles = stats.norm.ppf(1 - FAMILY_ERROR / tests) + stats.norm.ppf(POWER)
    return max(float(np.expm1(quantiles * noise * np.sqrt(np.pi / 3))), SMALLEST)


def _judged(family: Sequence[_Compared]) -> list[BaselineChange]:
    """Verdicts, corrected over the family by Holm's method, for each direction."""
    changes = [replace(row.change, smallest=_smallest(row.noise, len(family))) for row in family]
    for direction in ("slower", "faster"):
        order = sorted(range(len(family)), key=lambda at: getattr(family[at], direction))
        worst = 0.0
        for rank, at in enumerate(order):
            worst = max(worst, getattr(family[at], direction) * (len(order) - rank))
            ratio = changes[at].ratio if direction == "slower" else 1 / changes[at].ratio
            if ratio <= 1:
                continue
            is_changed = worst <= FAMILY_ERROR and ratio >= 1 + SMALLEST
            verdict = direction if is_changed else "unchanged"
            changes[at] = replace(changes[at], verdict=verdict, p_value=min(worst, 1.0))
    return changes
