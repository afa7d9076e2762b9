"""`assay ask`: a question in words, matched with variables, catalog and scenarios."""

from collections.abc import Iterator
from typing import Annotated

import typer

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Report, facts, report_of, working
from assay.scenario.questions.asking import AskAnswer, ask


def ask_command(
    question: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="A question, such as: cost per token.")
    ],
    as_json: options.Json = False,
) -> Report:
    """Answer a question in words, and say what was understood.

    Words are matched with the names and meanings of variables, with the catalog and with the
    built-in scenarios. Words that match nothing are named. A model that is too large for the
    scenario's GPUs is split over the fewest that hold it. The printed command gives the same answer
    in full.
    """
    with working("reading the scenarios"):
        answer = ask(" ".join(question))
    return report_of(answer, lambda canvas: _lines(answer, canvas), as_json)


def _lines(answer: AskAnswer, canvas: Canvas) -> Iterator[Line]:
    understood, value = answer.understanding, answer.value or {}
    if understood.candidates:
        first = understood.candidates[0]
        shown = value.get("text")
        yield ((first.name, styles.NAME), *((" = ", (shown, styles.VALUE)) if shown else ()))
        yield ((first.meaning, styles.FAINT),)
        yield ""
    yield from facts(
        [
            ("asked for", understood.intent if understood.candidates else ""),
            ("with", ", ".join(f"{entry.title} ({entry.path})" for entry in understood.entries)),
            ("scenario", value.get("preset") or ""),
            ("so that it fits", ", ".join(value.get("assign") or ())),
            ("missing", ", ".join(value.get("missing") or ())),
            ("does not hold", "; ".join(value.get("violated") or ())),
            ("problem", value.get("problem") or ""),
            ("not understood", ", ".join(understood.unknown)),
            ("in full", value.get("command") or ""),
            ("or", ", ".join(other.name for other in understood.candidates[1:])),
        ],
        canvas,
    )
