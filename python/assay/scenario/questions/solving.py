"""The values at which variables take given values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from assay.answers import Answer
from assay.errors import AssayError, CheckFailedError, MissingInputsError
from assay.keywords import takes
from assay.scenario.question import (
    GIVEN,
    Given,
    Pairs,
    contradiction,
    each_of,
    read_pairs,
    read_question,
)
from assay.scenario.questions.missing import MissingAnswer, missing_answer
from assay.scenario.questions.remarks import validity_remarks

if TYPE_CHECKING:
    from assay.model.solving.solution import Solution


@dataclass(frozen=True)
class SolveAnswer(Answer):
    """Values of the unknowns, with other solutions and whole neighbors."""

    solution: Solution

    def headline(self) -> str:
        """The values of the unknowns, and where which required values are reached."""
        found = self.solution
        said = (f"{v.name} = {v.figure(found.values[v.name]).text}" for v in found.unknowns)
        at = (
            f"{name} is {resolution.variable.figure(found.required[name]).text}"
            for name, resolution in found.resolutions.items()
        )
        return f"{', '.join(said)}, where {' and '.join(at)}"

    def to_json(self) -> dict[str, Any]:
        """The solution as JSON data."""
        return {**self.solution.to_data(), "notes": list(self.notes)}


@takes(GIVEN)
def solve(
    unknown: str | Sequence[str],
    equal: Pairs,
    *,
    switch: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    **given: Unpack[Given],
) -> SolveAnswer | MissingAnswer:
    """Find the values of unknowns at which variables take the values of `equal`."""
    unknown = each_of(unknown)
    question = read_question(**given)
    required = read_pairs("--equal", 'name="value unit"', equal)
    try:
        solution = question.registry.solve(
            unknown, question.given, required, question.variants, switch=switch
        )
    except MissingInputsError as error:
        return missing_answer(question.registry, error)
    violated = solution.violated
    problem: AssayError | None = contradiction(
        question, unknown, switch=switch, allow_conflicts=allow_conflicts
    )
    if problem is None and violated and fail_on_violated:
        problem = CheckFailedError(f"violated: {', '.join(violated)}")
    given_notes = question.notes_on_given(list(solution.required), unknown, switch=switch)
    notes = [
        *given_notes, *validity_remarks(solution.validity), *solution.notes, *question.notes
    ]  # fmt: skip
    return SolveAnswer(solution, problem=problem, notes=notes)
