"""`assay levers show NAME`: one lever, in full."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import lever_text, options
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Report, facts, report_of

if TYPE_CHECKING:
    from assay.improve.levers.lever import Lever


def levers_show_command(
    name: Annotated[str, argument("NAME", "A lever such as graphs, or vllm/cuda-graphs.")],
    file: lever_text.Files = None,
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
    knobs = "; ".join(
        f"{knob.knob}: {', '.join(lever_text.value(value) for value in knob.values)}"
        for knob in lever.knobs
    )
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
