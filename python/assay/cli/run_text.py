"""What `assay run` prints at its end."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from assay.cli import styles
from assay.cli.output import Canvas, Line, facts, wrapped

if TYPE_CHECKING:
    from assay.improve.experiments.result import ExperimentResult
    from assay.improve.loop.outcome import Outcome
    from assay.intervals import Interval

_STYLES: Final = {
    "improved": styles.GOOD,
    "nothing to gain": styles.NAME,
    "undecided": styles.WARN,
    "diagnosed only": styles.NAME,
    "rolled back": styles.BAD,
    "engine lost": styles.BAD,
}
MOST_NAMED: Final = 6
"""Trials of a kind that are printed; the report has all."""


def text(outcome: "Outcome", canvas: Canvas) -> Iterator[Line]:
    """The verdict, the figures before and after, what was kept and what was not."""
    head = f"{outcome.metric}"
    if outcome.ratio is not None:
        head = f"{times(outcome.ratio)} {outcome.metric}"
    yield ((outcome.verdict, _STYLES[outcome.verdict]), f": {head}")
    for note in outcome.notes:
        yield from wrapped(note, canvas, "  ", styles.FAINT)
    yield ""
    yield from facts(_figures(outcome), canvas)
    yield from _trials("kept", outcome.kept, canvas)
    yield from _trials("undecided", outcome.undecided, canvas)
    yield from _trials("rejected", outcome.rejected, canvas)
    yield ""
    yield from facts(
        [
            ("start with", outcome.launch_command),
            ("report", str(outcome.report or "")),
            ("check it", f"assay verify-report {outcome.run.name}"),
            ("undo it", f"assay rollback {outcome.run.name}" if outcome.kept else ""),
        ],
        canvas,
    )


def _figures(outcome: "Outcome") -> Iterator[tuple[str, str]]:
    unit = unit_of(outcome.metric)
    for name, figure in (("before", outcome.baseline), ("after", outcome.final)):
        if figure is not None:
            yield name, f"{figure.value:,.4g} {unit} ({figure.lo:,.4g} to {figure.hi:,.4g})"
    if outcome.target is not None:
        met = {True: "met", False: "not met", None: "not judged"}[outcome.target_met]
        yield "target", f"{outcome.target:.0%}: {met}"


def _trials(title: str, results: Sequence["ExperimentResult"], canvas: Canvas) -> Iterator[Line]:
    for number, result in enumerate(results[:MOST_NAMED]):
        label = title if not number else ""
        shown = (
            times(result.ratio) if result.ratio and result.verdict == "improved" else result.reason
        )
        yield from facts([(label.ljust(9), f"{result.candidate.name}: {shown}")], canvas)
    if len(results) > MOST_NAMED:
        yield " " * 11 + f"and {len(results) - MOST_NAMED} more in the report"


def times(ratio: "Interval") -> str:
    """A ratio with its interval.

    >>> from assay.intervals import Interval
    >>> times(Interval(1.5, 1.4, 1.6))
    '1.50x (1.40 to 1.60)'
    """
    from assay.improve.experiments.verdict import MOST_SHOWN, between

    if ratio.hi < MOST_SHOWN and ratio.lo > 1.0 / MOST_SHOWN:
        return f"{ratio.value:.2f}x ({ratio.lo:.2f} to {ratio.hi:.2f})"
    return f"{ratio.value:.2f}x ({between(ratio)})"


def unit_of(metric: str) -> str:
    """The unit of a figure of a window, from its name."""
    if metric.endswith("_ms"):
        return "ms"
    if metric.startswith("request_"):
        return "requests/s"
    return "tokens/s" if "throughput" in metric else ""
