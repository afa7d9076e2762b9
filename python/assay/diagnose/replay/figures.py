"""Figures of a replay with intervals: from the spread over steps, and the error of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from assay.array_types import Floats
from assay.diagnose.replay import step_times
from assay.diagnose.replay.scenario import Scenario
from assay.intervals import Interval
from assay.lazy_import import np

if TYPE_CHECKING:
    pass

PERCENTILES: Final = (50, 90, 99)
Z90: Final = 1.6449


def figures(ns: Floats, batch: int | None, log_error: float, of: Scenario) -> dict[str, Interval]:
    """Step time and what follows from it, with intervals from steps and from the model."""
    draws = _draws(ns, log_error)
    expected = float(np.median(ns))
    intervals = {
        "step_ns": _interval(expected, draws),
        "tpot_ms": _interval(expected / 1e6, draws / 1e6),
    }
    for percent in PERCENTILES[1:]:
        value = float(np.percentile(ns, percent)) / 1e6
        intervals[f"p{percent}_tpot_ms"] = _interval(value, value * draws / expected)
    if batch is not None:
        intervals["tokens_per_second"] = _interval(batch * 1e9 / expected, batch * 1e9 / draws)
    prefill = step_times.step_times(of, "prefill")
    if len(prefill.ns):
        value = prefill.median() / 1e6
        intervals["ttft_ms"] = _interval(value, value * draws / expected)
    return intervals


def _draws(ns: Floats, log_error: float) -> Floats:
    medians = step_times.resampled_median(ns)
    noise = np.random.default_rng(1).normal(0.0, 1.0, len(medians)) * log_error
    drawn: Floats = medians * np.exp(noise)
    return drawn


def _interval(expected: float, draws: Floats) -> Interval:
    low, high = np.percentile(draws, (5, 95))
    return Interval(expected, min(float(low), expected), max(float(high), expected))


def ratio(before: Floats, after: Floats, log_error: float) -> Interval:
    """The change of the median step; steps are drawn in pairs."""
    draws = _draws(after, log_error) / step_times.resampled_median(before) - 1
    return _interval(float(np.median(after) / np.median(before)) - 1, draws)


def operations(plain: Scenario, changed: Scenario) -> list[dict[str, Any]]:
    """Device time of each operation in a decode step, before and after, the longest first."""
    decode = set(step_times.step_times(plain).step.tolist())
    chosen = plain.is_device & np.isin(plain.step, np.array(sorted(decode), np.int64))
    names, codes = np.unique(plain.operation[chosen].astype(str), return_inverse=True)
    totals = [
        np.bincount(codes, replayed.edges.work_ns[chosen], len(names)) / max(len(decode), 1)
        for replayed in (plain, changed)
    ]
    rows = [
        {"operation": name or None, "before_ns": float(old), "after_ns": float(new)}
        for name, old, new in zip(names.tolist(), *totals, strict=True)
    ]
    return sorted(rows, key=lambda row: -float(row["before_ns"] or 0.0))
