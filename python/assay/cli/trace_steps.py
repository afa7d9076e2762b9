"""`assay trace steps`: the steps of a trace, one row each."""

from collections.abc import Iterator
from typing import Any

from assay.cli import options
from assay.cli.output import NAME, VALUE, Canvas, Line, Part, Report, cut, cut_notes, table, working
from assay.cli.trace_summary import Model, milliseconds, recover_structure


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
    from assay.observe.structure.summary import describe_step

    with working(f"reading {trace}") as say:
        recovered = recover_structure(trace, model, say, details=False)
    rows = [describe_step(step) for step in recovered.steps]
    degradations = [*recovered.trace.header.degradations, *recovered.degradations]
    data = {
        "trace": trace,
        "steps": rows,
        "repairs": dict(recovered.trace.header.repairs),
        "degradations": degradations,
    }
    shown = options.MAX_LISTED if limit is None else limit
    hidden = None if as_json else cut(shown, steps=rows)
    return Report(
        data,
        lambda canvas: _text(rows, canvas, shown or len(rows)),
        as_json,
        notes=[*degradations, *cut_notes(hidden)],
    )


def _text(rows: list[dict[str, Any]], canvas: Canvas, limit: int) -> Iterator[Line]:
    if not rows:
        yield "no steps found"
        return
    first = min(row["start_ns"] for row in rows)
    cells: list[tuple[Part, ...]] = [
        (
            (str(row["step"]), NAME),
            _number(row["rank"]),
            row["phase"] or "unknown",
            _number(row["batch"]),
            _number(row["prefill_tokens"]),
            milliseconds(row["start_ns"] - first),
            (milliseconds(row["dur_ns"]), VALUE),
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
