"""`assay trace diff`: two traces, operation by operation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, table, working
from assay.cli.trace_summary import NAME_WIDTH, Model
from assay.errors import InputError
from assay.escaping import clipped

MAX_LISTED = 20


def trace_diff_command(
    first: Annotated[str, argument("A", "The trace to compare with: a file, folder or name.")],
    second: Annotated[str, argument("B", "The trace to compare.")],
    model: Model = None,
    limit: Annotated[
        int, option("--limit N", "Operations to print at most; 0 for all.")
    ] = MAX_LISTED,
    as_json: options.Json = False,
) -> Report:
    """Say which operations make the steps of one trace slower than those of another.

    Steps of the same phase are compared. Each instant of a step belongs to the kernel or copy that
    began first among those that run, or to the gap; so the differences of the means add up to the
    difference of the mean step. Medians stand beside, with half the interquartile range. Kernels
    that are not mapped are compared by name.
    """
    from assay.observe.diff import diff_traces

    if limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    with working(f"reading {first}") as progress:
        difference = diff_traces(first, second, model, progress=progress)
    return report_of(difference, lambda canvas: _text(difference.phases, limit, canvas), as_json)


def _text(phases: Sequence[Mapping[str, Any]], limit: int, canvas: Canvas) -> Iterator[Line]:
    for number, phase in enumerate(phases):
        if number:
            yield ""
        change = (
            f" ({phase['delta_ns'] / phase['step_ns_before']:+.1%})"
            if phase["step_ns_before"]
            else ""
        )
        yield (
            (phase["phase"], styles.NAME), ", mean step: ", (_time(phase["step_ns_before"]), styles.VALUE),
            " to ", (_time(phase["step_ns_after"]), styles.VALUE), change,
        )  # fmt: skip
        yield (
            (
                f"{count(phase['steps_before'], 'step')} and {phase['steps_after']:,}; medians "
                f"{_time(phase['median_ns_before'])} and {_time(phase['median_ns_after'])}",
                styles.FAINT,
            ),
        )
        yield ""
        rows = [*phase["operations"], {"name": "gap", "mapped": True, **phase["gap"]}]
        rows.sort(key=lambda row: -abs(row["delta_ns"]))
        shown = rows[: limit or None]
        cells = [_cells(row) for row in shown]
        header = ("change us", "share", "A", "B", "median A", "median B", "operation")
        yield from table(header, cells, canvas, right=(0, 1, 2, 3, 4, 5))
        if len(shown) < len(rows):
            rest = sum(row["delta_ns"] for row in rows[len(shown) :])
            more = count(len(rows) - len(shown), "operation")
            yield ((f"{more} more sum to {_signed(rest)}; --limit 0 lists all", styles.FAINT),)


def _cells(row: dict[str, Any]) -> tuple[Part, ...]:
    share = "-" if row["share"] is None else f"{row['share']:.1%}"
    medians = [
        "-"
        if row[f"median_ns_{side}"] is None
        else f"{row[f'median_ns_{side}'] / 1000:,.1f} +-{(row[f'p75_ns_{side}'] - row[f'p25_ns_{side}']) / 2000:.1f}"
        for side in ("before", "after")
    ]
    name = clipped(row["name"], NAME_WIDTH)
    return (
        (f"{row['delta_ns'] / 1000:+,.1f}", styles.VALUE), share, f"{row['ns_before'] / 1000:,.1f}",
        f"{row['ns_after'] / 1000:,.1f}", *medians, (name, styles.NAME) if row["mapped"] else (name, styles.FAINT),
    )  # fmt: skip


def _time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.1f} us"


def _signed(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:+,.1f} us"
