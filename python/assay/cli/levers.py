"""`assay levers`: what a run may try, listed, shown and checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, facts, report_of, table

if TYPE_CHECKING:
    from assay.improve.levers.lever import Lever


Engine = Annotated[
    str | None,
    option(
        "--engine NAME", "Levers of one engine: assay, llama.cpp, vllm, or one that a file names."
    ),
]
Files = Annotated[
    list[Path] | None,
    option(
        "--file FILE",
        "A lever file of your own; may be repeated. Its levers add to the library's and "
        "replace those of the same name and engine.",
    ),
]


def value(setting: Any) -> str:
    """A value of a knob as a lever file writes it."""
    if setting is None or isinstance(setting, bool):
        return {None: "null", True: "true", False: "false"}[setting]
    return str(setting)


def levers_list_command(
    engine: Engine = None, file: Files = None, as_json: options.Json = False
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


def levers_show_command(
    name: Annotated[str, argument("NAME", "A lever such as graphs, or vllm/cuda-graphs.")],
    file: Files = None,
    as_json: options.Json = False,
) -> Report:
    """Show a lever: mechanism, knobs and values, when it applies, risk, inverse and reference.

    A name that levers of several engines have shows all of them; ENGINE/NAME is one.
    """
    from assay.improve.levers.library_questions import show_levers

    shown = show_levers(name, file or ())

    def text(canvas: Canvas) -> Iterator[Line]:
        for number, lever in enumerate(shown.levers):
            if number:
                yield ""
            yield from _lines(lever, canvas)

    return report_of(shown, text, as_json)


def _lines(lever: "Lever", canvas: Canvas) -> Iterator[Line]:
    knobs = "; ".join(f"{knob.knob}: {', '.join(map(value, knob.values))}" for knob in lever.knobs)
    together = " (values go together, in this order)" if len(lever.knobs) > 1 else ""
    yield from facts(
        [
            ("lever", f"{lever.engine}/{lever.name}"),
            ("mechanism", lever.mechanism),
            ("knobs", knobs + together),
            ("applies", " and ".join(f"[{condition}]" for condition in lever.applies) or "always"),
            ("addresses", ", ".join(lever.addresses)),
            ("what-if", ", ".join(lever.changes)),
            ("change", "live" if lever.hot else "by a restart"),
            ("risk", lever.safety),
            ("outputs", lever.correctness),
            ("inverse", lever.inverse),
            ("reference", lever.reference),
            ("source", lever.source),
        ],
        canvas,
    )


def levers_check_command(
    file: Annotated[
        list[Path] | None, argument("[FILE]...", "Lever files; the library if none is given.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Check lever files: keys, expressions, names of causes and what-if changes.

    The first mistake is named with its file, lever and place, and the exit code is 2. Whether an
    engine has the knobs is only known when it runs: levers without theirs are skipped then.
    """
    from assay.improve.levers.library_questions import check_lever_files

    valid = check_lever_files(file or ())
    lines = [f"{name}: {count(number, 'lever')}, valid" for name, number in valid.counts.items()]
    return report_of(valid, lambda canvas: lines, as_json)
