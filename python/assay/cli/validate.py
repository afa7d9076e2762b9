"""`assay validate`: predictions compared with published figures."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import (
    Canvas,
    Line,
    Part,
    Report,
    count,
    cut,
    report_of,
    table,
    with_cut,
    working,
    wrapped,
)

if TYPE_CHECKING:
    from assay.validate.groups import GroupScore
    from assay.validate.leaderboard import Board
    from assay.validate.score import Errors, Row, Score
    from assay.validate.single_changes import SingleChange
    from assay.validate.worst import Miss, TermChange


_TERMS = 3
_REASONS = 20
"""Reasons for missing predictions that a summary lists."""


def worst_lines(misses: "Sequence[Miss]", canvas: Canvas) -> Iterator[Line]:
    """A paragraph a miss: figures, terms, assumptions, and single changes that explain it."""
    for miss in misses:
        yield from _miss_lines(miss, canvas)
        yield ""
    yield "predicted by constants fitted without the source; each change alone gives what was observed"


def _miss_lines(miss: "Miss", canvas: Canvas) -> Iterator[Line]:
    row = miss.row
    predicted = row.held_out if row.held_out is not None else row.predicted
    yield ((row.case, styles.NAME), f"  {row.quantity}, {row.group}")
    lo, hi = (row.lo, row.hi) if row.held_out_lo is None else (row.held_out_lo, row.held_out_hi)
    interval = "" if lo is None else f" ({lo:.4g} to {hi:.4g})"
    yield (
        "  predicted ", (f"{predicted:.4g} {row.unit}", styles.VALUE),
        f"{interval}, observed {row.observed:.4g}: ", (f"{row.held_out_error:+.0%}", styles.BAD),
    )  # fmt: skip
    yield from wrapped(f"source: {row.source}", canvas, "  ", styles.FAINT)
    largest = sorted(row.terms.items(), key=lambda item: -abs(item[1]))
    if largest:
        parts = ", ".join(f"{name} {value:.3g}" for name, value in largest)
        yield from wrapped(f"terms: {parts}", canvas, "  ", styles.FAINT)
    for note in row.notes:
        yield from wrapped(f"assumed: {note}", canvas, "  ", styles.FAINT)
    yield "  would have to be true, one of"
    for term in miss.terms[:_TERMS]:
        yield f"    {_term_text(term)}"
    for change in miss.changes:
        yield f"    {_change_text(change, row)}"
    if not miss.changes:
        yield "    no input alone between an eighth and eight times its value gives it"


def _term_text(term: "TermChange") -> str:
    if term.after == 0:
        return f"{term.name}: gone, and that is not enough"
    factor = term.after / term.before
    return f"{term.name}: {term.after:.3g} instead of {term.before:.3g} (x {factor:.3g})"


def _change_text(change: "SingleChange", row: "Row") -> str:
    unit = "" if change.unit == "1" else f" {change.unit}"
    text = f"{change.name}: {change.after:.3g}{unit} instead of {change.before:.3g}"
    if change.ratio != 1:
        text += f", which gives {change.ratio * row.observed:.4g} {row.unit}"
    elif change.factor is not None:
        text += f" (x {change.factor:.3g})"
    if change.spreads is not None:
        text += f", {change.spreads:.1f} of its standard errors"
    return text


_LARGE_ERROR = 0.2
"""Relative error above which a line is highlighted."""


def validate_command(
    suite: Annotated[
        str,
        option(
            "--suite kernels|training|inference|all|NAME", "Cases of a kind, of one suite, or all."
        ),
    ] = "all",
    cases: Annotated[
        Path | None, option("--cases FILE", "A file of cases; by default the published ones.")
    ] = None,
    tier: Annotated[str, option("--tier TIERS", "Tiers to include, such as A or AB.")] = "ABC",
    summary: Annotated[bool, option("--summary", "Print the scores without the cases.")] = False,
    worst: Annotated[
        int | None, option("--worst N", "Explain the N figures that are missed by most.", min=1)
    ] = None,
    leaderboard: Annotated[
        bool, option("--leaderboard", "Print other tools and rules on the same figures.")
    ] = False,
    served: Annotated[
        Path | None,
        option("--served FILE", "Windows of assay bench serving, beside what a plan says of them."),
    ] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Predict published figures and score the predictions.

    Every case shows the prediction with its 90 % interval and largest terms, and the observed
    figure. The errors of each suite are split: `in-sample` are cases that the constants were
    fitted on, `held-out` are errors of constants fitted without its source. Errors of simpler
    rules are printed for comparison. Where a suite has more cases than --limit, those with the
    largest errors are printed. Then comes one line for each group of figures, with its bar.
    --worst lists the largest misses instead: their terms, what was assumed, and which single
    term or input would have to be how much larger or smaller. --leaderboard prints, group by
    group, how many figures other tools and rules answer and how well, beside Assay on the same.
    --served takes a file of `assay bench serving` in place of cases.
    """
    if served is not None:
        return _served(served, as_json)
    from assay.validate.questions import score_cases

    cases_at_most = options.MAX_LISTED if limit is None else limit
    with working("predicting", log=False) as progress:
        answer = score_cases(suite, cases, tier, worst=worst, progress=progress)
    scores, groups = answer.scores, answer.groups

    def text(canvas: Canvas) -> Iterator[Line]:
        if worst is not None:
            yield from worst_lines(answer.worst, canvas)
            return
        if leaderboard:
            yield from board_lines(answer.leaderboard, canvas)
            return
        if not summary:
            for score in scores:
                if score.is_suite:
                    yield from _suite_lines(score, cases_at_most, canvas)
        yield from _score_lines(scores, canvas)
        if groups:
            yield ""
            yield from group_lines(groups, canvas)

    is_short = summary or leaderboard or worst is not None
    is_cut = not is_short and any(_cut(score, cases_at_most) for score in scores)
    left_out = f"{cases_at_most} cases of a suite at most; --limit 0 lists all" if is_cut else None
    return report_of(with_cut(answer, left_out), text, as_json)


def _served(file: Path, as_json: bool) -> Report:
    """Measured windows of servers beside predictions of them."""
    from assay.validate.served_windows import compare_windows

    with working("predicting", log=False) as progress:
        answer = compare_windows(file, progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        rows: list[tuple[Part, ...]] = [
            (
                (row.server, styles.NAME),
                row.scenario,
                "saturated" if row.rate is None else f"{row.rate:.3g}/s",
                row.figure,
                f"{row.measured:,.4g}",
                f"{row.predicted:,.4g}",
                "" if row.lo is None else f"{min(row.lo, row.hi or row.lo):,.3g} to {row.hi:,.3g}",
                (f"{row.error:+.1%}", styles.VALUE if row.is_met else styles.BAD),
                f"{row.bar:.0%}",
                "" if row.replayed is None else f"{row.replayed:,.4g}",
                "yes" if row.is_fitted else "",
            )
            for row in answer.figures
        ]
        header = (
            "server", "lengths", "load", "figure", "measured", "predicted", "90 %", "error", "bar",
            "replayed", "in a fit",
        )  # fmt: skip
        yield from table(header, rows, canvas, right=(4, 5, 6, 7, 8, 9))
        met = sum(row.is_met for row in answer.figures)
        yield f"{met} of {count(len(answer.figures), 'figure')} within the bar"
        for name, reason in answer.refused:
            yield f"{name}: not predicted: {reason}"

    return report_of(answer, text, as_json)


def _cut(score: "Score", limit: int) -> str | None:
    if not score.is_suite:
        return None
    return cut(limit, cases=score.rows)


def _suite_lines(score: "Score", limit: int, canvas: Canvas) -> Iterator[Line]:
    yield ((score.name, styles.NAME),)
    left_out = _cut(score, limit)
    # What is not predicted is the largest error of all.
    rows = sorted(score.rows, key=_badness)[:limit] if left_out else score.rows
    for row in rows:
        yield from _row_lines(row, canvas)
    if left_out:
        yield ((f"  the worst {left_out}", styles.FAINT),)
    yield ""


def _badness(row: "Row") -> float:
    """The negative error of a row, so that the worst comes first."""
    return -math.inf if row.error is None else -abs(row.error)


def _row_lines(row: "Row", canvas: Canvas) -> Iterator[Line]:
    if row.predicted is None or row.error is None:
        yield (f"  {row.case}  ", ("not predicted", styles.WARN), f": {row.gap}")
        return
    style = styles.BAD if abs(row.error) > _LARGE_ERROR else styles.VALUE
    interval = "" if row.lo is None else f" ({row.lo:.4g} to {row.hi:.4g})"
    yield (f"  {row.case}  {row.quantity}",)
    yield (
        "      predicted ",
        (f"{row.predicted:.4g} {row.unit}", styles.VALUE),
        f"{interval}, observed {row.observed:.4g}: ",
        (f"{row.error:+.1%}", style),
        _sample(row),
    )
    largest = sorted(row.terms.items(), key=lambda item: -abs(item[1]))
    if largest:
        parts = ", ".join(f"{name} {value:.3g}" for name, value in largest)
        yield from wrapped(parts, canvas, "      ", styles.FAINT)
    for note in row.notes:
        yield from wrapped(f"assumed: {note}", canvas, "      ", styles.FAINT)


def _score_lines(scores: "Sequence[Score]", canvas: Canvas) -> Iterator[Line]:
    rows: list[tuple[Part, ...]] = []
    for score in scores:
        rows.append(
            (
                (score.name, styles.NAME if score.is_pool else ""),
                f"{score.covered}/{score.cases}",
                _share(score.in_sample, "mape"),
                _percent(score.in_sample_coverage90),
                *(_share(score.held_out, name) for name in ("mape", "median", "p90")),
                _percent(score.held_out_coverage90),
                ", ".join(f"{name} {e.mape:.1%}" for name, e in score.baselines.items()) or "-",
            )
        )
    header = (
        "suite", "covered", "in-sample", "in 90 %", "held-out", "median", "p90", "in 90 %",
        "mean error of simpler rules",
    )  # fmt: skip
    yield from table(header, rows, canvas, right=(1, 2, 3, 4, 5, 6, 7))
    yield "in-sample: mean error on the cases of the fits; held-out: of constants fitted without its source"
    yield "in 90 %: share of figures inside their 90 % interval, of the column's figures"
    gaps = sum(score.cases - score.covered for score in scores if score.is_suite)
    if gaps:
        yield f"{count(gaps, 'case')} not predicted; the reason of each is with --limit 0 or in --json"
        yield from _gap_lines(scores, canvas)


def _gap_lines(scores: "Sequence[Score]", canvas: Canvas) -> Iterator[Line]:
    """The reasons why figures have no prediction, the most frequent first."""
    rows = (row for score in scores if score.is_suite for row in score.rows)
    reasons = Counter(row.gap for row in rows if row.predicted is None)
    for reason, figures in reasons.most_common(_REASONS):
        yield from wrapped(f"{count(figures, 'figure')}: {reason}", canvas, "  ", styles.FAINT)
    if len(reasons) > _REASONS:
        yield f"  {len(reasons) - _REASONS} further reasons"


def group_lines(groups: "Sequence[GroupScore]", canvas: Canvas) -> Iterator[Line]:
    """One line a group: its figures with one source left out, beside the bar."""
    rows: list[tuple[Part, ...]] = [
        (
            (group.name, styles.NAME),
            str(len(group.rows)),
            str(len(group.by_source)),
            _share(group.in_sample, "median"),
            _share(group.held_out, "median"),
            "-" if group.source_mean is None else f"{group.source_mean:.1%}",
            f"{group.bar:.0%}",
            _percent(group.coverage90),
            "-" if group.band is None else f"{100 * group.band[0]:.0f}-{group.band[1]:.0%}",
            (", ".join(group.failures), styles.BAD) if group.failures else ("met", styles.VALUE),
        )
        for group in groups
    ]
    header = (
        "group", "n", "sources", "in-sample", "left out", "by source", "bar", "in 90 %", "band",
        "verdict",
    )  # fmt: skip
    yield from table(header, rows, canvas, right=(1, 2, 3, 4, 5, 6, 7, 8))
    yield "in-sample: median error on figures of the fits; left out: of constants without the source"
    yield "by source: mean over the sources of their medians; band: 95 % of draws at a coverage of 90 %"
    yield "verdict: met, or what misses: the median its bar, intervals too narrow or too wide the band"


def board_lines(boards: "Sequence[Board]", canvas: Canvas) -> Iterator[Line]:
    """One line a tool and group: what it answers, its error, and Assay's on the same figures."""
    rows: list[tuple[Part, ...]] = [
        (
            (board.group, styles.NAME) if entry is board.entries[0] else "",
            str(board.rank) if entry is board.entries[0] else "",
            entry.tool,
            f"{entry.answered}/{board.figures}",
            _percent1(entry.median),
            _percent1(entry.own_median),
            "-" if entry.interval_score is None else f"{entry.interval_score:.2f}",
        )
        for board in boards
        for entry in board.entries
    ]
    header = ("group", "rank", "tool", "answered", "median", "assay there", "interval score")
    yield from table(header, rows, canvas, right=(1, 3, 4, 5, 6))
    yield "median: of errors on the figures that a tool answers; assay there: Assay's on the same, sources left out"
    yield "rank: one more than the tools with a smaller median where both answer"
    yield "interval score: width of 90 % intervals and 20 times the distance of misses, of logarithms; less is better"


def _percent1(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _sample(row: "Row") -> str:
    """Whether the case entered the fit, and its held-out error."""
    if not row.in_sample:
        return ""
    held_out = row.held_out_error
    return " in-sample" if held_out is None else f" in-sample, {held_out:+.1%} held-out"


def _share(errors: "Errors | None", name: str) -> str:
    return "-" if errors is None else f"{getattr(errors, name):.1%}"
