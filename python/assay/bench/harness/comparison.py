"""Regressions and improvements of a run against a baseline, where they are significant.

Machines drift from hour to hour, so a figure is compared by its ratio to a reference measured in
the same rounds: its ceiling, else a rival that ran in both. Only without either are the figures
themselves compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from assay.answers import data_of
from assay.bench.harness.case import unit_named
from assay.bench.harness.result import Figure, Result, Series
from assay.bench.harness.statistics import Interval, median, ratio_interval
from assay.errors import InputError

TOLERANCE: Final = 0.05

IMPROVED, REGRESSED, UNDECIDED, INVALID = "improved", "regressed", "undecided", "invalid"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure against its baseline; a ratio above one is an improvement."""

    name: str
    verdict: str
    ratio: float | None
    interval: Interval | None
    by: str
    """What was compared, or why the comparison is invalid."""

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "interval": None if self.interval is None else list(self.interval)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Verdicts for the figures that both runs have, and the names of those that one has."""

    verdicts: tuple[Verdict, ...]
    tolerance: float
    only_now: tuple[str, ...]
    only_then: tuple[str, ...]

    def of(self, verdict: str) -> tuple[Verdict, ...]:
        """The figures with this verdict."""
        return tuple(judged for judged in self.verdicts if judged.verdict == verdict)

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return data_of(self, "tolerance verdicts only_now only_then")


def check_comparable(suite: str, then: Result) -> None:
    """Refuse a file of another suite before anything is measured."""
    if then.suite != suite:
        raise InputError(
            f"expected a result of the suite {suite}, got one of {then.suite}",
            f"assay bench {suite} --save FILE writes one",
        )


def compare(now: Result, then: Result, tolerance: float = TOLERANCE) -> Comparison:
    """Compare a run with an earlier one of the same suite."""
    check_comparable(now.suite, then)
    before = {figure.name: figure for figure in then.figures}
    names = [figure.name for figure in now.figures]
    incomparable = None
    if now.machine["fingerprint"] != then.machine["fingerprint"]:
        incomparable = "measured on another machine or device"
    elif now.quick != then.quick:
        incomparable = "one run was quick, the other was not"
    return Comparison(
        verdicts=tuple(
            _verdict(figure, before[figure.name], tolerance, incomparable)
            for figure in now.figures
            if figure.name in before
        ),
        tolerance=tolerance,
        only_now=tuple(name for name in names if name not in before),
        only_then=tuple(name for name in before if name not in names),
    )


def _verdict(now: Figure, then: Figure, tolerance: float, incomparable: str | None) -> Verdict:
    reason = incomparable or _unusable(now, then)
    if reason is not None:
        return Verdict(now.name, INVALID, None, None, reason)
    by, values_now, values_then = _values(now, then)
    ratio = median(values_now) / median(values_then)
    interval = ratio_interval(values_now, values_then)
    return Verdict(now.name, decide(interval, tolerance), ratio, interval, by)


def decide(interval: Interval | None, tolerance: float) -> str:
    """The verdict of a confidence interval: undecided unless all of it is beyond the tolerance.

    >>> decide(Interval(0.80, 0.90), 0.05), decide(Interval(0.80, 0.97), 0.05)
    ('regressed', 'undecided')
    """
    if interval is None:
        return UNDECIDED
    if interval.low > 1.0 + tolerance:
        return IMPROVED
    if interval.high < 1.0 - tolerance:
        return REGRESSED
    return UNDECIDED


def _unusable(now: Figure, then: Figure) -> str | None:
    for figure, when in ((now, "now"), (then, "then")):
        if not figure.check.passed:
            return f"the answer {when} is wrong"
        if min(figure.own.values) <= 0.0:
            return f"the figure {when} is zero"
    if now.unit != then.unit:
        return f"the unit is {now.unit} now and was {then.unit}"
    if now.cold != then.cold:
        return "the inputs come from memory in one run and from cache in the other"
    return None


def _values(now: Figure, then: Figure) -> tuple[str, Sequence[float], Sequence[float]]:
    """What the figures are compared by, and its values in both runs; more is better."""
    shared = by_reference(now, then)
    if shared is not None:
        return shared
    if unit_named(now.unit).higher_is_better:
        return now.unit, now.own.values, then.own.values
    return (
        now.unit,
        [1.0 / value for value in now.own.values],
        [1.0 / value for value in then.own.values],
    )


def by_reference(now: Figure, then: Figure) -> tuple[str, Sequence[float], Sequence[float]] | None:
    """Ratios to a ceiling or rival that was measured in the rounds of both; None without one."""
    for mine, theirs in _references(now, then):
        values_now, values_then = now.paired(mine), then.paired(theirs)
        if len(values_now) >= 2 and len(values_then) >= 2:
            return f"ratio to {mine.name} in the same rounds", values_now, values_then
    return None


def _references(now: Figure, then: Figure) -> list[tuple[Series, Series]]:
    pairs = []
    if now.ceiling and then.ceiling and now.ceiling.name == then.ceiling.name:
        pairs.append((now.ceiling, then.ceiling))
    earlier = {rival.name: rival for rival in then.rivals}
    pairs += [(rival, earlier[rival.name]) for rival in now.rivals if rival.name in earlier]
    return pairs
