"""A question in words, matched with variables, catalog and scenarios, and answered."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay import stack
from assay.answers import Answer
from assay.errors import AssayError, UnknownNameError
from assay.model.resolving.resolution import Resolution
from assay.scenario import built_in
from assay.scenario.ask import Understanding, understand
from assay.scenario.fitting import GROUPS, TENSOR, fitting_group, is_too_small
from assay.scenario.question import read_question

MOST_TRIED: Final = 3
"""Scenarios that are tried until one gives the variable a value."""


@dataclass(frozen=True)
class AskAnswer(Answer):
    """What was understood of a question, and the value of its likeliest variable.

    `value` has the variable's value in the best scenario that has one, the command that gives it in
    full, or what is missing; it is None where no variable matches.
    """

    understanding: Understanding
    value: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Both as JSON data."""
        return {**self.understanding.to_data(), "answer": self.value}


def ask(question: str) -> AskAnswer:
    """Answer a question in words, and say what was understood.

    Words are matched with the names and meanings of variables, with the catalog and with the
    built-in scenarios; words that match nothing are named. A model that is too large for the
    scenario's GPUs is split over the fewest that hold it.
    """
    presets = [built_in.preset(name) for name in built_in.presets()]
    understanding = understand(stack.registry(), presets, question)
    problem = None
    if not understanding.candidates:
        problem = UnknownNameError(
            "no variable matches the question", "assay list prints the variables"
        )
    return AskAnswer(understanding, _value(understanding), problem=problem)


def _value(understanding: Understanding) -> dict[str, Any] | None:
    """The first candidate's value in the best scenario that has one."""
    if not understanding.candidates:
        return None
    target = understanding.candidates[0].name
    included = [entry.path for entry in understanding.entries]
    first: dict[str, Any] | None = None
    for preset in understanding.presets[:MOST_TRIED]:
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


def _resolved(target: str, preset: str, included: Sequence[str]) -> tuple[list[str], Resolution]:
    """The variable in a scenario, and what was assigned so that the named model fits its GPUs."""
    question = read_question(preset=preset, includes=included)
    first = question.resolve(target, intervals=False)
    if not is_too_small(first) or TENSOR not in question.given:
        return [], question.resolve(target)

    def with_group(group: int) -> Resolution:
        tried = read_question(preset=preset, assign=[f"{TENSOR}={group}"], includes=included)
        return tried.resolve(target, intervals=False)

    group = fitting_group(with_group, GROUPS)
    assign = [] if group is None else [f"{TENSOR}={group}"]
    fitted = read_question(preset=preset, assign=assign, includes=included)
    return assign, fitted.resolve(target)


def _command(target: str, preset: str, included: Sequence[str], assign: Sequence[str]) -> str:
    words = ["assay", "explain", target, "--preset", preset]
    for path in included:
        words += ["--with", path]
    for pair in assign:
        words += ["--assign", pair]
    return shlex.join(words)
