"""What a value is made of, line by line with shares of the total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from assay.answers import Answer
from assay.scenario.question import Given, problem_with, read_question
from assay.scenario.questions.remarks import remarks

if TYPE_CHECKING:
    from assay.model.comparing.receipt import Receipt


@dataclass(frozen=True)
class ReceiptAnswer(Answer):
    """Every line of a receipt once, with the share that each of its inputs carries."""

    receipt: Receipt

    def to_json(self) -> dict[str, Any]:
        """The lines as JSON data."""
        return {**self.receipt.to_data(), "notes": list(self.notes)}


def receipt(
    target: str,
    *,
    switch: bool = True,
    intervals: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    **given: Unpack[Given],
) -> ReceiptAnswer:
    """What a value is made of, with shares of the total.

    A share is the per cent by which the value moves for one per cent of the line, along that path:
    terms of a sum divide it, factors of a product each carry all of it, divisors count negative.
    """
    from assay.model.comparing.receipt import make_receipt
    from assay.model.resolving.resolve import make_resolver

    question = read_question(**given)
    resolver = make_resolver(question.registry, question.inputs, question.variants, switch=switch)
    lines = make_receipt(resolver, target, sources=question.sources, intervals=intervals)
    problem = problem_with(
        lines.resolution, fail_on_violated=fail_on_violated, allow_conflicts=allow_conflicts,
        stated=question.stated,
    )  # fmt: skip
    given_notes = question.notes_on_given([target], switch=switch)
    notes = [*given_notes, *remarks(lines.resolution), *question.notes, *lines.notes]
    return ReceiptAnswer(lines, problem=problem, notes=notes)
