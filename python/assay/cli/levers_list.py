"""`assay levers list`: the library and the user's own files."""

from collections.abc import Iterator

from assay.cli import lever_text, options, styles
from assay.cli.output import Canvas, Line, Part, Report, count, report_of, table


def levers_list_command(
    engine: lever_text.Engine = None, file: lever_text.Files = None, as_json: options.Json = False
) -> Report:
    """List the levers that assay run may try.

    A lever is a change of settings with the conditions under which it applies, what can go wrong
    (safe, may slow, may fail), and what it may do to outputs (bitwise, rounding, lossy, changes
    sampling). Which of them apply is decided when a run has seen engine, workload and diagnosis.
    """
    from assay.improve.levers.library_questions import list_levers

    listed = list_levers(engine, file or ())

    def text(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            (
                (lever.name, styles.NAME),
                lever.engine,
                "live" if lever.hot else "restart",
                lever.safety,
                lever.correctness,
                ", ".join(knob.knob for knob in lever.knobs),
            )
            for lever in listed.levers
        ]
        header = ("lever", "engine", "change", "risk", "outputs", "knobs")
        yield from table(header, cells, canvas)
        yield ""
        yield f"{count(len(listed.levers), 'lever')}; assay levers show NAME says how one works"

    return report_of(listed, text, as_json)
