"""A diagnosis for people: waterfall with bars, causes, operations, critical path."""

from collections.abc import Iterator
from typing import Any

from assay.cli import styles
from assay.cli.output import Canvas, Line, Part, count, facts, table
from assay.diagnose.terms import steps_alike
from assay.escaping import clipped

BAR = 28
"""Columns of the longest bar."""
NAME_WIDTH = 48
CAUSES = 12
WORTH = 0.001
"""Share of the step that a cause takes in some steps at least, to be printed."""
PATHS = 8
VIOLATIONS = 12


def text(data: dict[str, Any], canvas: Canvas, limit: int) -> Iterator[Line]:
    """The whole report, line by line."""
    yield from facts(_facts(data), canvas)
    yield ""
    yield from waterfall(data, canvas)
    if data["causes"]:
        yield ""
        worth = [
            cause
            for cause in data["causes"]
            if cause["within"] or cause["hi"] >= WORTH * data["step_ns"]
        ]
        yield from causes_table(worth, canvas, time="us/token" if data["phase"] else "us/step")
    if data["changes"]:
        yield ""
        yield from _changes(data["changes"], canvas)
    if violated := [row for row in data["violations"] if row["verdict"] == "violated"]:
        yield ""
        yield from violations_table(violated[:VIOLATIONS], canvas)
        if len(violated) > VIOLATIONS:
            yield ((f"{len(violated) - VIOLATIONS} more violations in --json", styles.FAINT),)
    if rows := [row for row in data["operations"] if row["operation"]][:limit]:
        yield ""
        yield from _operations(rows, canvas, is_predicted=data["predicted_ns"] is not None)
    if not data["predictions"]:
        yield ""
        yield from _kernels(data["kernels"][:limit], canvas)
    yield ""
    yield from _path(data["critical_path"]["parts"], canvas)


def microseconds(nanoseconds: float | None) -> str:
    """A duration for a table."""
    if nanoseconds is None:
        return ""
    # A floor of a few nanoseconds is not none.
    small = 0 < abs(nanoseconds) < 50
    return f"{nanoseconds / 1e3:.2g}" if small else f"{nanoseconds / 1e3:,.1f}"


def _observed(data: dict[str, Any]) -> str:
    alike, of = steps_alike(data), len(data["steps"])
    others = "" if alike == of else f" of {of}"
    return f"{data['step_ns'] / 1e6:,.3f} ms, median of {alike}{others} steps"


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    what = data["phase"] or "step"
    batch = "" if data["batch"] is None else count(data["batch"], "sequence")
    from_attention = " (from attention)" if data["context_source"] == "attention" else ""
    context = "" if data["context"] is None else f"context {data['context']:,}{from_attention}"
    predicted = data["predicted_ns"]
    return [
        ("trace", data["trace"]),
        ("model", data["model"] or "not given"),
        ("GPU", data["gpu"] or "not known"),
        ("engine", _engine(data)),
        ("step", ", ".join(part for part in (what, batch, context) if part)),
        ("observed", _observed(data)),
        (
            "predicted",
            ""
            if predicted is None
            else f"{predicted / 1e6:,.3f} ms ({data['lo'] / 1e6:,.3f} to {data['hi'] / 1e6:,.3f})",
        ),
        (
            "floor",
            ""
            if data["floor_ns"] is None
            else f"{data['floor_ns'] / 1e6:,.3f} ms, "
            f"{100 * data['floor_ns'] / data['step_ns']:.0f} % of the observed step",
        ),
    ]


def _engine(data: dict[str, Any]) -> str:
    launched = "graph replay" if data["cuda_graphs"] else "kernel by kernel"
    ranks = f", {data['tensor']} ranks" if data["tensor"] > 1 else ""
    return f"{data['engine'] or 'not recognized'}, {launched}{ranks}"


def _bar(share: float, canvas: Canvas) -> str:
    filled = round(BAR * min(max(share, 0.0), 1.0))
    return ("\u2588" if canvas.is_unicode else "#") * filled


def waterfall(data: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    """The terms of a step with bars, which add up to what was observed."""
    whole = data["step_ns"] or 1
    terms = [term for term in data["waterfall"] if term["ns"]]
    longest = max((term["ns"] for term in terms), default=1)
    cells: list[tuple[Part, ...]] = [
        (
            (term["name"].replace("_", " "), styles.NAME),
            (microseconds(term["ns"]), styles.VALUE),
            f"{100 * term['ns'] / whole:.1f}",
            _bar(term["ns"] / longest, canvas),
        )
        for term in terms
    ]
    cells.append(
        (("observed", styles.NAME), (microseconds(data["step_ns"]), styles.VALUE), "100.0", "")
    )
    yield from table(("term", "us", "%", ""), cells, canvas, right=(1, 2))


def causes_table(
    causes: list[dict[str, Any]],
    canvas: Canvas,
    interval: str = "90 % of steps",
    time: str = "us/token",
) -> Iterator[Line]:
    """Causes by the time they explain, and what to try."""
    cells: list[tuple[Part, ...]] = []
    for cause in causes[:CAUSES]:
        part = f", part of {cause['within']}" if cause["within"] else ""
        cells.append(
            (
                (microseconds(cause["ns_per_token"]), styles.VALUE),
                f"{microseconds(cause['lo'])} to {microseconds(cause['hi'])}",
                _status(cause),
                (cause["name"] + part, styles.NAME),
            )
        )
    yield from table((time, interval, "status", "cause"), cells, canvas, right=(0, 1))
    if len(causes) > CAUSES:
        yield ((f"{len(causes) - CAUSES} more in --json", styles.FAINT),)
    yield ""
    fixes: list[tuple[Part, ...]] = [
        ((cause["name"], styles.NAME), cause["fix"])
        for cause in causes[:CAUSES]
        if not cause["within"]
    ]
    yield from table(("cause", "what to try"), fixes, canvas)


def _status(cause: dict[str, Any]) -> str:
    if cause["within"]:
        return "not told apart"
    return "beside the step" if cause["beyond_step"] else str(cause["status"])


def _changes(rows: list[dict[str, Any]], canvas: Canvas) -> Iterator[Line]:
    """What became slower or faster than the baseline."""
    changed = [row for row in rows if row["verdict"] in ("slower", "faster")]
    if not changed:
        smallest = max((row["smallest"] for row in rows), default=0.0)
        yield f"nothing slower or faster than the baseline by {100 * smallest:.0f} % or more"
        return
    cells: list[tuple[Part, ...]] = [
        (
            (
                f"{100 * (row['ratio'] - 1):+.1f} %",
                styles.BAD if row["verdict"] == "slower" else styles.GOOD,
            ),
            microseconds(row["baseline_ns"]),
            (microseconds(row["observed_ns"]), styles.VALUE),
            f"{row['p_value']:.2g}",
            (row["name"].replace("_", " ") if row["kind"] == "term" else row["name"], styles.NAME),
        )
        for row in changed
    ]
    titles = ("change", "baseline us", "us", "p", "against the baseline")
    yield from table(titles, cells, canvas, right=(0, 1, 2, 3))


def violations_table(rows: list[dict[str, Any]], canvas: Canvas) -> Iterator[Line]:
    """Invariants that do not hold, or were not measured."""
    cells: list[tuple[Part, ...]] = [
        (
            (row["invariant"], styles.NAME),
            (row["verdict"], styles.BAD if row["verdict"] == "violated" else styles.FAINT),
            row["where"],
            row["reason"] or _range(row),
        )
        for row in rows
    ]
    yield from table(("invariant", "verdict", "where", "why"), cells, canvas)


def _range(row: dict[str, Any]) -> str:
    if row["observed"] is None:
        return ""
    return f"{row['observed']:,.4g} {row['unit']}, expected {row['lo']:,.4g} to {row['hi']:,.4g}"


def _operations(
    rows: list[dict[str, Any]], canvas: Canvas, *, is_predicted: bool
) -> Iterator[Line]:
    cells: list[tuple[Part, ...]] = [
        (
            (microseconds(row["observed_ns"]), styles.VALUE),
            microseconds(row["expected_ns"]) if is_predicted else "",
            microseconds(row["floor_ns"]),
            f"{row['count']:,.0f}",
            (row["operation"], styles.NAME),
        )
        for row in rows
    ]
    # The steps are not alike: a mean over them is not what the waterfall's step took.
    titles = ("mean us", "expected", "floor", "kernels", "operation")
    yield from table(titles, cells, canvas, right=(0, 1, 2, 3))


def _kernels(rows: list[dict[str, Any]], canvas: Canvas) -> Iterator[Line]:
    cells: list[tuple[Part, ...]] = [
        (
            clipped(row["name"], NAME_WIDTH),
            f"{row['count']:,}",
            (microseconds(row["ns"]), styles.VALUE),
        )
        for row in rows
    ]
    yield from table(("kernel", "count", "us, median step"), cells, canvas, right=(1, 2))


def _path(rows: list[dict[str, Any]], canvas: Canvas) -> Iterator[Line]:
    whole = sum(row["ns"] for row in rows) or 1
    cells: list[tuple[Part, ...]] = [
        (
            (row["part"], styles.NAME),
            (microseconds(row["ns"]), styles.VALUE),
            f"{100 * row['ns'] / whole:.1f}",
            clipped(row["label"] or "", NAME_WIDTH),
        )
        for row in rows[:PATHS]
    ]
    yield from table(("critical path", "us", "%", "of"), cells, canvas, right=(1, 2))
    if len(rows) > PATHS:
        rest = sum(row["ns"] for row in rows[PATHS:])
        yield ((f"{count(len(rows) - PATHS, 'part')} more: {microseconds(rest)} us", styles.FAINT),)
