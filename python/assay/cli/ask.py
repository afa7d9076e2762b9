"""`assay ask`: a question in words, answered by a command that is printed first, or refused."""

from collections.abc import Iterator
from typing import Annotated

from assay.asking.answering import AskAnswer, ask
from assay.cli import options, styles
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Report, facts, report_of, working
from assay.errors import AssayError, InputError


def ask_command(
    question: Annotated[
        list[str],
        argument("QUESTION", 'A question, such as: "does Llama 3.1 70B fit on one H200?"'),
    ],
    as_json: options.Json = False,
) -> Report:
    """Answer a question in words, or refuse it.

    Does it fit, how many GPUs, how long, what does it cost, which is cheaper or faster, what if,
    what limits, what latency at what rate; memory, energy, emissions, failures, buy or rent. The
    command that was run is printed first and gives the same number. Every name, number and word of
    the question is used; otherwise there is no answer but the command that comes nearest, the words
    that were not understood, and exit code 2.
    """
    with working("reading the question"):
        answer = ask(" ".join(question))
    report = report_of(answer, lambda canvas: _lines(answer, canvas), as_json)
    return report._replace(problem=_without_nearest(answer))


def _without_nearest(answer: AskAnswer) -> AssayError | None:
    """The refusal without the command that is printed as the result already."""
    problem = answer.problem
    if problem is None or not problem.hint or not answer.nearest:
        return problem
    parts = problem.hint.split("; ")
    kept = [part for part in parts if part != f"nearest: {answer.nearest}"]
    return InputError(problem.message, "; ".join(kept) or None)


def _lines(answer: AskAnswer, canvas: Canvas) -> Iterator[Line]:
    outcome = answer.outcome
    if outcome is None:
        if answer.nearest:
            yield (("nearest ", styles.FAINT), (answer.nearest, styles.NAME))
        return
    for line in outcome.lines:
        yield (("$ ", styles.FAINT), (line, styles.NAME))
    yield ""
    yield ((outcome.text, styles.VALUE),)
    if outcome.rows:
        yield ""
        yield from facts(list(outcome.rows), canvas)
    violated = [] if outcome.verdict else outcome.broken
    yield ""
    yield from facts(
        [
            ("90 %", outcome.interval),
            ("assumed", "; ".join(outcome.assumed)),
            ("does not hold", "; ".join(violated)),
        ],
        canvas,
    )
