"""Scores by group of figures: errors of constants that never saw the source, and their intervals.

A suite is what was published together; a group is what a user asks about. Each group has a bar
for the median error with one source left out, and its 90 % intervals hold if the share of figures
inside lies where 95 of 100 draws at 90 % would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from assay.answers import data_of, plain_data
from assay.validate.score import Errors, Row

TRAINING = {
    "dense": "training dense", "moe": "training MoE",
    "fsdp_long": "training FSDP, long",
}  # fmt: skip
"""Groups of training steps, by the kind of the job; `fsdp_long` has FSDP and long contexts."""

SERVING = {
    "throughput": "throughput", "throughput_per_gpu": "throughput",
    "step_time": "TPOT", "time_to_first_token": "TTFT",
}  # fmt: skip
"""Groups of serving figures, by the output of the graph."""

BARS = {
    "training dense": 0.05, "training MoE": 0.12, "training FSDP, long": 0.07,
    "throughput": 0.10, "TPOT": 0.12, "TTFT": 0.25,
    "throughput, loaded": 0.10, "TPOT, loaded": 0.12, "TTFT, loaded": 0.25, "ITL": 0.12,
    "ITL p99": 0.25, "energy per token": 0.15, "GPU power": 0.08, "memory": 0.03,
}  # fmt: skip
"""The largest median error with one source left out, by group."""

COVERAGE = 0.9
_CONFIDENCE = 0.95


def binomial_band(count: int, share: float = COVERAGE) -> tuple[float, float]:
    """Shares that a central 95 % of binomial draws lie between.

    >>> binomial_band(100)
    (0.84, 0.95)
    """
    tail, total = (1 - _CONFIDENCE) / 2, 0.0
    ends: list[float] = []
    for inside in range(count + 1):
        total += math.comb(count, inside) * share**inside * (1 - share) ** (count - inside)
        while len(ends) < 2 and total >= (tail, 1 - tail)[len(ends)] - 1e-12:
            ends.append(inside / count)
    return ends[0], ends[-1]


@dataclass(frozen=True)
class GroupScore:
    """The score of one group: `shipped` of all its figures, `held_out` without their sources."""

    name: str
    rows: tuple[Row, ...]
    shipped: Errors | None
    in_sample: Errors | None
    held_out: Errors | None
    by_source: dict[str, float]
    """Held-out median of each source."""
    coverage90: float | None
    band: tuple[float, float] | None

    @property
    def source_mean(self) -> float | None:
        """Mean of the sources' medians: a source of many figures weighs no more than a small one."""
        return mean(self.by_source.values()) if self.by_source else None

    @property
    def bar(self) -> float:
        """The bar of the held-out median."""
        return BARS[self.name]

    @property
    def failures(self) -> tuple[str, ...]:
        """What misses its bar: `median`, or intervals that are too `narrow` or too `wide`."""
        failures = []
        if self.held_out is not None and self.held_out.median > self.bar:
            failures.append("median")
        if self.coverage90 is not None and self.band is not None:
            if self.coverage90 < self.band[0]:
                failures.append("narrow")
            elif self.coverage90 > self.band[1]:
                failures.append("wide")
        return tuple(failures)

    def to_data(self) -> dict[str, Any]:
        """The score as plain data."""
        return {
            "group": self.name, "figures": len(self.rows), "sources": len(self.by_source),
            **data_of(self, "shipped in_sample held_out"),
            "held_out_median_by_source": self.by_source, "source_mean": self.source_mean,
            "coverage90": self.coverage90, "band95": plain_data(self.band),
            **data_of(self, "bar failures"),
        }  # fmt: skip


def score_groups(rows: Sequence[Row]) -> list[GroupScore]:
    """One score a group that has figures, in the order of the bars."""
    groups = []
    for name in BARS:
        own = [row for row in rows if row.group == name and row.predicted is not None]
        if own:
            groups.append(_score(name, own))
    return groups


def _score(name: str, rows: Sequence[Row]) -> GroupScore:
    by_source: dict[str, list[float]] = {}
    for row in rows:
        if (error := row.held_out_error) is not None:
            by_source.setdefault(row.source, []).append(abs(error))
    inside = [row.is_inside_held_out for row in rows if row.is_inside_held_out is not None]
    return GroupScore(
        name,
        tuple(rows),
        Errors.of(row.error for row in rows),
        Errors.of(row.error for row in rows if row.in_sample),
        Errors.of(row.held_out_error for row in rows),
        {source: median(errors) for source, errors in by_source.items()},
        sum(inside) / len(inside) if inside else None,
        binomial_band(len(inside)) if inside else None,
    )
