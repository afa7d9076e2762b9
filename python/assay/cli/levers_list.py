"""`assay levers list`: the library and the user's own files."""

from collections.abc import Iterator

from assay.cli import lever_text, options
from assay.cli.output import NAME, Canvas, Line, Part, Report, count, table


def levers_list_command(
    engine: lever_text.Engine = None,
    file: lever_text.Files = None,
    as_json: options.Json = False,
) -> Report:
    """List the levers that assay run may try.

    A lever is a change of settings with the conditions under which it applies, what can go wrong
    (safe, may slow, may fail), and what it may do to outputs (bitwise, rounding, lossy, changes
    sampling). Which of them apply is decided when a run has seen engine, workload and diagnosis.
    """
    from assay.errors import unknown_name
    from assay.improve.levers import loading

    found = loading.load(None, file or ())
    engines = sorted({one.engine for one in found})
    if engine is not None:
        if engine not in engines:
            raise unknown_name("engine", engine, engines)
        found = [one for one in found if one.engine in (engine, loading.ANY)]

    def text(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            (
                (one.name, NAME),
                one.engine,
                "live" if one.hot else "restart",
                one.safety,
                one.correctness,
                ", ".join(knob.knob for knob in one.knobs),
            )
            for one in found
        ]
        header = ("lever", "engine", "change", "risk", "outputs", "knobs")
        yield from table(header, cells, canvas)
        yield ""
        yield f"{count(len(found), 'lever')}; assay levers show NAME says how one works"

    return Report([lever_text.data(one) for one in found], text, as_json)
