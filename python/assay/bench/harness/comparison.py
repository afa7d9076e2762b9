"""Regressions and improvements of a run against a baseline, where they are significant.

Machines drift from hour to hour, so a figure is compared by its ratio to a reference measured in
the same rounds: its ceiling, else a rival that ran in both. A reference may have moved by itself, so
the figures themselves are compared too, and where the two contradict each other nothing is decided.
Without a reference only the figures are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    doubt: str = ""
    """How the figures themselves, and the reference, moved where they contradict the ratio."""
    may_be_slower: bool = False
    """Whether, of the two that contradict each other, one says so beyond noise and by the tolerance."""

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
    notes: tuple[str, ...] = ()
    """What no interval has: conditions of the two runs."""

    def of(self, verdict: str) -> tuple[Verdict, ...]:
        """The figures with this verdict."""
        return tuple(judged for judged in self.verdicts if judged.verdict == verdict)

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return data_of(self, "tolerance verdicts only_now only_then notes")


def check_comparable(suite: str, then: Result, claim: str = "CLAIM") -> None:
    """Refuse a file of another suite before anything is measured; `claim` as commands take it."""
    if then.suite != suite:
        raise InputError(
            f"expected a result of the suite {suite}, got one of {then.suite}",
            f"assay bench run {claim} --save FILE writes one",
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
        notes=tuple(_notes(now, then)),
    )


def _notes(now: Result, then: Result) -> Iterator[str]:
    """What differs between two runs, of which intervals within each say nothing."""
    busy = [when for result, when in ((then, "then"), (now, "now")) if result.was_busy]
    if busy:
        yield f"the machine was busy with other work {' and '.join(busy)}: measure again when it is not"
    yield "intervals are of rounds within a run: what moves from run to run is not in them"


def _verdict(now: Figure, then: Figure, tolerance: float, incomparable: str | None) -> Verdict:
    reason = incomparable or _unusable(now, then)
    if reason is not None:
        return Verdict(now.name, INVALID, None, None, reason)
    by, values_now, values_then = _values(now, then)
    ratio = median(values_now) / median(values_then)
    interval = ratio_interval(values_now, values_then)
    doubt = _contradiction(now, then, interval, tolerance)
    if doubt is None:
        return Verdict(now.name, decide(interval, tolerance), ratio, interval, by)
    text, may_be_slower = doubt
    return Verdict(now.name, UNDECIDED, ratio, interval, by, text, may_be_slower)


def _contradiction(
    now: Figure, then: Figure, interval: Interval | None, tolerance: float
) -> tuple[str, bool] | None:
    """How the figures themselves contradict their ratio to a reference, and whether either is slower.

    They do where the ratio moved and they did not move the same way beyond noise, and where they
    moved and the ratio, for its noise, leaves open whether it did.
    """
    references = _shared(now, then)
    values_now, values_then = _alone(now, now.own), _alone(then, then.own)
    alone = ratio_interval(values_now, values_then)
    if references is None or interval is None or alone is None:
        return None
    if _is_slower(interval, tolerance):
        is_contradicted = alone.high >= 1.0
    elif interval.low > 1.0 + tolerance:
        is_contradicted = alone.low <= 1.0
    else:
        by_value = decide(alone, tolerance)
        is_contradicted = (by_value == REGRESSED and interval.low < 1.0 - tolerance) or (
            by_value == IMPROVED and interval.high > 1.0 + tolerance
        )
    if not is_contradicted:
        return None
    mine, theirs = references
    moved = median(_alone(now, mine)) / median(_alone(then, theirs))
    own = median(values_now) / median(values_then)
    text = (
        f"by value {own:.2f} ({alone.low:.2f} to {alone.high:.2f}), "
        f"and {mine.name} was {moved:.2f} times as fast as then"
    )
    return text, any(_is_slower(moved, tolerance) for moved in (interval, alone))


def _is_slower(interval: Interval, tolerance: float) -> bool:
    """Whether a slowdown is beyond noise, and may be as large as the tolerance."""
    return interval.high < 1.0 and interval.low <= 1.0 / (1.0 + tolerance)


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
    return now.unit, _alone(now, now.own), _alone(then, then.own)


def _alone(figure: Figure, series: Series) -> list[float]:
    """Values of one subject; more is better."""
    if unit_named(figure.unit).higher_is_better:
        return series.values
    return [1.0 / value for value in series.values]


def by_reference(now: Figure, then: Figure) -> tuple[str, Sequence[float], Sequence[float]] | None:
    """Ratios to a ceiling or rival that was measured in the rounds of both; None without one."""
    shared = _shared(now, then)
    if shared is None:
        return None
    mine, theirs = shared
    return f"ratio to {mine.name} in the same rounds", now.paired(mine), then.paired(theirs)


def _shared(now: Figure, then: Figure) -> tuple[Series, Series] | None:
    """The first reference that has rounds beside ours in both."""
    for mine, theirs in _references(now, then):
        if len(now.paired(mine)) >= 2 and len(then.paired(theirs)) >= 2:
            return mine, theirs
    return None


def _references(now: Figure, then: Figure) -> list[tuple[Series, Series]]:
    pairs = []
    if now.ceiling and then.ceiling and now.ceiling.name == then.ceiling.name:
        pairs.append((now.ceiling, then.ceiling))
    earlier = {rival.name: rival for rival in then.rivals}
    pairs += [(rival, earlier[rival.name]) for rival in now.rivals if rival.name in earlier]
    return pairs
