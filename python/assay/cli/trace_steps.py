"""`assay trace steps`: the steps of a trace, one row each."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Part, Report, cut, cut_notes, report_of, table, working
from assay.cli.trace_summary import Model, milliseconds

if TYPE_CHECKING:
    from assay.observe.structure.summary import Rows


def trace_steps_command(
    trace: options.TraceArgument,
    model: Model = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """List the steps of a trace: phase, batch, start, duration and the device's time in each.

    Times count from the first step. A number that no kernel and no annotation shows is left
    out.
    """
    from assay.observe.structure.summary import list_steps

    with working(f"reading {trace}") as progress:
        listed = list_steps(trace, model, progress=progress)
    shown = options.MAX_LISTED if limit is None else limit
    return report_of(
        listed,
        lambda canvas: _text(listed.steps, canvas, shown or len(listed.steps)),
        as_json,
        text_notes=cut_notes(cut(shown, steps=listed.steps)),
    )


def _text(rows: "Rows", canvas: Canvas, limit: int) -> Iterator[Line]:
    if not rows:
        yield "no steps found"
        return
    first = min(row["start_ns"] for row in rows)
    cells: list[tuple[Part, ...]] = [
        (
            (str(row["step"]), styles.NAME),
            _number(row["rank"]),
            row["phase"] or "unknown",
            _number(row["batch"]),
            _number(row["prefill_tokens"]),
            milliseconds(row["start_ns"] - first),
            (milliseconds(row["dur_ns"]), styles.VALUE),
            milliseconds(row["device_ns"]),
            f"{row['kernels']:,}",
            str(row["layers"]) if row["complete"] else f"{row['layers']} (cut off)",
        )
        for row in rows[:limit]
    ]
    titles = (
        "step", "rank", "phase", "batch", "prompt", "start ms", "ms", "device ms", "events",
        "layers",
    )  # fmt: skip
    yield from table(titles, cells, canvas, right=(0, 1, 3, 4, 5, 6, 7, 8, 9))


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
