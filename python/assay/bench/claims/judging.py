"""The gates of a claim over its result: right, seeded, saturated, on target, not slower than before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from assay.bench.claims.claim import BEST_RIVAL, Gates, Target
from assay.bench.harness.case import unit_named
from assay.bench.harness.comparison import INVALID, Verdict, compare
from assay.bench.harness.result import Figure, Result, Series
from assay.bench.harness.statistics import median, median_interval
from assay.errors import InputError

Passing = Literal["passed", "failed", "undecided"]
PASSED: Final[Passing] = "passed"
FAILED: Final[Passing] = "failed"
UNDECIDED: Final[Passing] = "undecided"


class GateLine(NamedTuple):
    """What a gate says of a figure."""

    figure: str
    gate: str
    verdict: Passing
    reason: str


def judge(result: Result, gates: Gates, baseline: Result | None = None) -> list[GateLine]:
    """Every gate over every figure; a baseline adds the gate of regressions."""
    if not result.figures:
        raise InputError("expected a result with figures, got none", "assay bench run measures")
    has_file = bool(((result.claim or {}).get("data") or {}).get("file"))
    lines = [line for figure in result.figures for line in _figure(figure, gates, has_file)]
    lines += _targets(result, gates)
    if baseline is not None:
        compared = compare(result, baseline, gates.regression)
        busy = "; the machine was busy" if result.was_busy or baseline.was_busy else ""
        lines += [
            line._replace(reason=f"{line.reason}{busy}")
            for line in (regression(verdict, gates.regression) for verdict in compared.verdicts)
        ]
        lines += [
            GateLine(name, "regression", FAILED, "is in the baseline, and was not measured")
            for name in compared.only_then
        ]
    return lines


def overall(lines: list[GateLine]) -> Passing:
    """Failed if a gate failed, undecided if one is, else passed."""
    verdicts = {line.verdict for line in lines}
    return FAILED if FAILED in verdicts else UNDECIDED if UNDECIDED in verdicts else PASSED


def _figure(figure: Figure, gates: Gates, has_file: bool) -> Iterator[GateLine]:
    check = figure.check
    if check.passed:
        yield _line(figure, "check", PASSED, f"error {check.error:.0e} against {check.against}")
    else:
        # Answers of which there is no error are those of work that was not done.
        what = "refused" if math.isnan(check.error) else f"wrong against {check.against}"
        why = f": {figure.note}" if figure.note else ""
        yield _line(figure, "check", FAILED, f"{what}{why}")
    seeds = len({part.seed for part in figure.seeds})
    verdict = PASSED if seeds >= gates.seeds else FAILED
    # One file of data has no seeds: it is measured as often.
    text = (
        f"none: one file of data, {seeds} runs" if has_file else f"{seeds} of {gates.seeds} seeds"
    )
    yield _line(figure, "seeds", verdict, text)
    yield _spread(figure, gates, "runs of the file" if has_file else "seeds")
    yield _saturation(figure, gates)


def _spread(figure: Figure, gates: Gates, between: str) -> GateLine:
    medians = [median(values) for values in figure.by_seed(figure.own.rounds).values()]
    if not medians:
        return _line(figure, "spread", FAILED, "no rounds by seed")
    if len(medians) == 1:
        return _line(
            figure, "spread", UNDECIDED, f"one of the {between}: there is nothing to compare"
        )
    middle = median(medians)
    spread = (max(medians) - min(medians)) / middle if middle else 0.0
    if spread <= gates.spread:
        return _line(figure, "spread", PASSED, f"{spread:.1%} between {between}")
    reason = f"{spread:.1%} between {between}, more than {gates.spread:.1%}"
    return _line(figure, "spread", UNDECIDED, reason)


def _saturation(figure: Figure, gates: Gates) -> GateLine:
    """A figure without a stall breakdown says how fast, not why it is no faster: it fails."""
    if figure.stalls is None:
        reason = "reports neither saturation nor where its time went"
        return _line(figure, "saturation", FAILED, reason)
    share = figure.share
    if figure.ceiling is None or share is None:
        text, share = f"{figure.stalls.busy:.0%} of the machine busy", figure.stalls.busy
    else:
        text = f"{share:.0%} of {figure.ceiling.name}"
    parts = ", ".join(f"{part:.0%} {name}" for name, part in figure.stalls.shares.items())
    if gates.saturation is not None and share < gates.saturation:
        return _line(
            figure, "saturation", FAILED, f"{text}, less than {gates.saturation:.0%}: {parts}"
        )
    return _line(figure, "saturation", PASSED, f"{text}: {parts}")


def _targets(result: Result, gates: Gates) -> Iterator[GateLine]:
    for target in gates.target:
        figures = [figure for figure in result.figures if target.case in figure.name]
        if not figures:
            yield GateLine(target.case, "target", FAILED, "no case of this name was measured")
        for figure in figures:
            yield _target(figure, target)


def _target(figure: Figure, target: Target) -> GateLine:
    if target.over:
        rival = _rival(figure, target.over)
        if rival is None:
            return _line(figure, "target", FAILED, f"{target.over}: {_why_absent(figure, target)}")
        values, what = figure.ratios(rival), f"x {rival.name}"
    else:
        values, what = list(figure.own.rounds), f" {figure.unit}"
    known = [value for value in values if value is not None]
    by_seed = [median(part) for part in figure.by_seed(values).values()] or [median(known)]
    interval = median_interval(known)
    low = min([*by_seed, *([interval.low] if interval else [])])
    high = max([*by_seed, *([interval.high] if interval else [])])
    bar = target.at_least if target.at_least is not None else target.at_most
    assert bar is not None
    word = "at least" if target.at_least is not None else "at most"
    reason = f"{median(known):.4g}{what} ({low:.4g} to {high:.4g}), bar {word} {bar:g}"
    is_above = low >= bar if target.at_least is not None else high <= bar
    is_below = high < bar if target.at_least is not None else low > bar
    verdict = PASSED if is_above else FAILED if is_below else UNDECIDED
    return _line(figure, "target", verdict, reason)


def _why_absent(figure: Figure, target: Target) -> str:
    if target.over != BEST_RIVAL:
        return figure.absent.get(target.over, "not measured")
    reasons = [f"{name} {reason}" for name, reason in figure.absent.items()]
    return f"none was measured: {'; '.join(reasons)}" if reasons else "none was measured"


def _rival(figure: Figure, name: str) -> Series | None:
    if name != BEST_RIVAL:
        return next((rival for rival in figure.rivals if rival.name == name), None)
    best = max if unit_named(figure.unit).higher_is_better else min
    return best(figure.rivals, key=lambda rival: rival.median) if figure.rivals else None


def regression(verdict: Verdict, share: float) -> GateLine:
    """Fails where a slowdown is beyond noise and may be as large as `share`.

    A slowdown of 5 % takes 1.05 times as long: the ratio is 1 / 1.05.

    >>> from assay.bench.harness.statistics import Interval
    >>> regression(Verdict("x", "", 0.952, Interval(0.945, 0.960), "s"), 0.05).verdict
    'failed'
    >>> regression(Verdict("x", "", 0.99, Interval(0.97, 0.995), "s"), 0.05).verdict
    'passed'
    >>> regression(Verdict("x", "", 0.97, Interval(0.93, 1.01), "s"), 0.05).verdict
    'undecided'
    """
    name, interval = verdict.name, verdict.interval
    if verdict.verdict == INVALID:
        return GateLine(name, "regression", FAILED, verdict.by)
    if interval is None or verdict.ratio is None:
        return GateLine(name, "regression", UNDECIDED, "too few rounds for an interval")
    text = f"{verdict.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f}) by {verdict.by}"
    if verdict.may_be_slower:
        return GateLine(name, "regression", UNDECIDED, f"{text}; {verdict.doubt}")
    if interval.low > 1.0 / (1.0 + share):
        return GateLine(
            name, "regression", PASSED, f"a slowdown of {share:.0%} is excluded: {text}"
        )
    if interval.high < 1.0:
        return GateLine(name, "regression", FAILED, f"slower beyond noise: {text}")
    reason = f"a slowdown of {share:.0%} is not excluded: {text}"
    return GateLine(name, "regression", UNDECIDED, reason)


def _line(figure: Figure, gate: str, verdict: Passing, reason: str) -> GateLine:
    return GateLine(figure.name, gate, verdict, reason)
