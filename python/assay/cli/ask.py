"""`assay ask`: a question in words, matched with variables, catalog and scenarios."""

import shlex
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from assay import stack
from assay.cli import options
from assay.cli.output import FAINT, NAME, VALUE, Canvas, Line, Report, facts, working
from assay.cli.question import read_question
from assay.errors import AssayError, UnknownNameError
from assay.model.resolving.resolution import Resolution
from assay.scenario import built_in
from assay.scenario.ask import Understanding, understand
from assay.scenario.fitting import GROUPS, TENSOR, fitting_group, is_too_small

MOST_TRIED: Final = 3
"""Scenarios that are tried until one gives the variable a value."""


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
    registry = stack.registry()
    with working("reading the scenarios"):
        presets = [built_in.preset(name) for name in built_in.presets()]
        found = understand(registry, presets, " ".join(question))
        answer = _answer(found)
    data = {**found.to_data(), "answer": answer}
    problem = None
    if not found.candidates:
        problem = UnknownNameError(
            "no variable matches the question", "assay list prints the variables"
        )
    return Report(data, lambda canvas: _lines(found, answer, canvas), as_json, problem)


def _answer(found: Understanding) -> dict[str, Any] | None:
    """The first candidate's value in the best scenario that has one."""
    if not found.candidates:
        return None
    target = found.candidates[0].name
    included = [one.path for one in found.entries]
    first: dict[str, Any] | None = None
    for preset in found.presets[:MOST_TRIED]:
        tried: dict[str, Any] = {
            "target": target,
            "preset": preset,
            "with": included,
            "assign": [],
            "command": _command(target, preset, included, []),
            "value": None,
            "unit": None,
            "lo": None,
            "hi": None,
            "text": None,
            "missing": [],
            "violated": [],
            "problem": None,
        }
        first = first or tried
        try:
            assign, resolution = _resolved(target, preset, included)
        except AssayError as error:
            # The entries may not go together with this scenario; the next one may take them.
            tried["problem"] = error.message
            continue
        if resolution.value is None:
            tried["missing"] = [gap.variable.name for gap in resolution.missing]
            continue
        variable = resolution.variable
        ends = (resolution.lower, resolution.upper)
        return {
            **tried,
            "assign": assign,
            "command": _command(target, preset, included, assign),
            "violated": [verdict.meaning for verdict in resolution.violated],
            "value": variable.shown(resolution.value),
            "unit": variable.display.text,
            "lo": None if ends[0] is None else variable.shown(ends[0]),
            "hi": None if ends[1] is None else variable.shown(ends[1]),
            "text": variable.figure(resolution.value, *ends).text,
        }
    return first


def _resolved(target: str, preset: str, included: list[str]) -> tuple[list[str], Resolution]:
    """The variable in a scenario, and what was assigned so that the named model fits its GPUs."""
    question = read_question(preset, None, None, included)
    first = question.resolve(target, intervals=False)
    if not is_too_small(first) or TENSOR not in question.given:
        return [], question.resolve(target)

    def with_group(group: int) -> Resolution:
        tried = read_question(preset, [f"{TENSOR}={group}"], None, included)
        return tried.resolve(target, intervals=False)

    group = fitting_group(with_group, GROUPS)
    assign = [] if group is None else [f"{TENSOR}={group}"]
    return assign, read_question(preset, assign, None, included).resolve(target)


def _command(target: str, preset: str, included: list[str], assign: list[str]) -> str:
    words = ["assay", "explain", target, "--preset", preset]
    for path in included:
        words += ["--with", path]
    for pair in assign:
        words += ["--assign", pair]
    return shlex.join(words)


def _lines(found: Understanding, answer: dict[str, Any] | None, canvas: Canvas) -> Iterator[Line]:
    if found.candidates:
        first = found.candidates[0]
        shown = (answer or {}).get("text")
        yield ((first.name, NAME), *((" = ", (shown, VALUE)) if shown else ()))
        yield ((first.meaning, FAINT),)
        yield ""
    yield from facts(
        [
            ("asked for", found.intent if found.candidates else ""),
            ("with", ", ".join(f"{one.title} ({one.path})" for one in found.entries)),
            ("scenario", (answer or {}).get("preset") or ""),
            ("so that it fits", ", ".join((answer or {}).get("assign") or ())),
            ("missing", ", ".join((answer or {}).get("missing") or ())),
            ("does not hold", "; ".join((answer or {}).get("violated") or ())),
            ("problem", (answer or {}).get("problem") or ""),
            ("not understood", ", ".join(found.unknown)),
            ("in full", (answer or {}).get("command") or ""),
            ("or", ", ".join(one.name for one in found.candidates[1:])),
        ],
        canvas,
    )
