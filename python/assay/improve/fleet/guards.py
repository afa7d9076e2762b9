"""What must not get worse while a change is promoted: latencies, service levels, failed requests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.improve.fleet.protocol import Sample
from assay.improve.fleet.randomization import Evidence, Round
from assay.improve.fleet.settings import PromotionSettings

OBJECTIVE: Final = "objective"
LATENCIES: Final = ("mean_ttft_ms", "mean_tpot_ms", "p99_e2el_ms")
"""Figures that are guarded beside the objective; lower is better."""
LEAST_SPREAD: Final = 0.005
"""Standard deviation of a replica's figure that is assumed at least, as a share of it."""
ODD_REPLICA: Final = 4.0
"""Spreads that a replica with the change may lie below the control."""
ODD_ROUNDS: Final = 2
"""Rounds in which it may not: one of them may be a neighbor's."""


def guarded_values(sample: Sample, settings: PromotionSettings) -> dict[str, float]:
    """What is compared of a window, each higher for better; figures that it lacks are left out."""
    values: dict[str, float] = {}
    if sample.value > 0.0:
        sign = 1.0 if settings.better == "higher" else -1.0
        values[OBJECTIVE] = sign * math.log(sample.value)
    for name in LATENCIES:
        if (figure := sample.figures.get(name, 0.0)) > 0.0:
            values[name] = -math.log(figure)
    return values


@dataclass(slots=True)
class Comparison:
    """Every guarded figure over all rounds of a promotion."""

    settings: PromotionSettings
    baseline: Mapping[str, Mapping[str, float]]
    """By figure and replica: its mean over the rounds of the baseline."""
    spreads: dict[str, float]
    """By figure: standard deviation of a replica's figure against its baseline, so far."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    held: dict[bool, list[int]] = field(default_factory=lambda: {True: [0, 0], False: [0, 0]})
    """Requests within the service levels and all requests; with the change, without it."""
    failed: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    odd: Counter[str] = field(default_factory=Counter)
    """Rounds in which a replica did far worse with the change than the control."""
    _squares: dict[str, list[float]] = field(default_factory=dict)

    def add(self, samples: Mapping[str, Sample], changed: Mapping[str, bool]) -> None:
        """Count a round in which these replicas had the change or not."""
        for name, sample in samples.items():
            counted = self.held[changed[name]]
            counted[0] += sample.held
            counted[1] += sample.requests
            self.failed[changed[name]] += sample.errors
        values = {name: guarded_values(sample, self.settings) for name, sample in samples.items()}
        for figure, levels in self.baseline.items():
            if all(figure in values[name] for name in samples):
                against = {name: values[name][figure] - levels[name] for name in samples}
                self._compare(figure, against, changed)

    def _compare(
        self, figure: str, against: Mapping[str, float], changed: Mapping[str, bool]
    ) -> None:
        groups = {
            had: tuple(value for name, value in against.items() if changed[name] is had)
            for had in (True, False)
        }
        spread = self.spreads[figure]
        entry = Round(groups[True], groups[False], spread)
        self.evidence.setdefault(figure, Evidence()).add(entry)
        control = math.fsum(groups[False]) / len(groups[False])
        for name, value in against.items():
            if figure == OBJECTIVE and changed[name] and value < control - ODD_REPLICA * spread:
                self.odd[name] += 1
        # The next round bets by what this one showed: starts differ more than windows do.
        for group in groups.values():
            center = math.fsum(group) / len(group)
            squares = self._squares.setdefault(figure, [])
            if len(group) > 1:
                squares += [
                    (value - center) ** 2 * len(group) / (len(group) - 1) for value in group
                ]
        if squares := self._squares[figure]:
            seen = math.sqrt(math.fsum(squares) / len(squares))
            self.spreads[figure] = max(self.spreads[figure], seen)

    def harm(self) -> str:
        """Which figure the change makes worse, in words; empty where none is shown.

        The chance of naming any without reason is alpha: each figure has its part of it.
        """
        limit = len(self.baseline) / self.settings.alpha
        for figure, evidence in self.evidence.items():
            if evidence.for_worse >= limit:
                worse = -math.expm1(evidence.estimate)
                name = "the objective" if figure == OBJECTIVE else figure
                return f"{name} is {worse:.1%} worse with the change"
        return ""

    def broken(self) -> str:
        """Which rule the change broke that needs no statistics; empty where none."""
        if self.failed[True] > self.failed[False]:
            return (
                f"{self.failed[True]} requests failed with the change, {self.failed[False]} without"
            )
        if self.settings.has_slo:
            shares = {had: _share(held) for had, held in self.held.items()}
            needed = min(self.settings.slo_share, shares[False])
            if shares[True] < needed:
                return (
                    f"{shares[True]:.1%} of requests hold the SLO with the change, "
                    f"{shares[False]:.1%} without, {needed:.1%} needed"
                )
        for name, rounds in self.odd.items():
            if rounds >= ODD_ROUNDS:
                return f"{name} is far worse with the change than the control, in {rounds} rounds"
        return ""


def levels_of(
    rounds: Sequence[Mapping[str, Sample]], settings: PromotionSettings
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Baselines by figure and replica, and the spread of a replica's figure around its baseline."""
    values = [
        {name: guarded_values(sample, settings) for name, sample in samples.items()}
        for samples in rounds
    ]
    names = list(rounds[0])
    figures = [
        figure
        for figure in (OBJECTIVE, *LATENCIES)
        if all(figure in row[name] for row in values for name in names)
    ]
    levels: dict[str, dict[str, float]] = {}
    spreads: dict[str, float] = {}
    for figure in figures:
        levels[figure] = {
            name: math.fsum(row[name][figure] for row in values) / len(values) for name in names
        }
        squares = []
        for row in values:
            moved = [row[name][figure] - levels[figure][name] for name in names]
            center = math.fsum(moved) / len(moved)
            squares += [(value - center) ** 2 for value in moved]
        freedom = (len(values) - 1) * (len(names) - 1)
        # A round's figure less the mean of the baseline's rounds has both of their noise.
        noise = math.fsum(squares) / freedom * (1.0 + 1.0 / len(values)) if freedom else 0.0
        spreads[figure] = max(math.sqrt(noise), LEAST_SPREAD)
    return levels, spreads


def _share(counted: Sequence[int]) -> float:
    return counted[0] / counted[1] if counted[1] else 0.0
