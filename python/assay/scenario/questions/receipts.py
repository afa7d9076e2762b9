"""What a value is made of, line by line with shares of the total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack

from assay.answers import Answer
from assay.keywords import takes
from assay.plurals import count
from assay.scenario.question import GIVEN, Given, problem_with, read_question
from assay.scenario.questions.remarks import remarks

if TYPE_CHECKING:
    from assay.model.comparing.receipt import Receipt, ReceiptLine


MOST_PARTS: Final = 3
"""Most lines that a headline names."""
VIEW_DEPTH: Final = 4
"""Levels below the value in a notebook, and the smallest share there: those of the terminal."""
VIEW_LEAST_SHARE: Final = 0.01
_INDENT: Final = "\u00a0\u00a0"
"""Spaces that HTML keeps."""


@dataclass(frozen=True)
class ReceiptAnswer(Answer):
    """Every line of a receipt once, with the share that each of its inputs carries."""

    receipt: Receipt

    def headline(self) -> str:
        """The value with its unit and interval, and the lines with the largest shares of it."""
        total = self.receipt.resolution
        if total.value is None:
            return total.headline()
        paths = [path for path in self.receipt.paths(1, 0.0) if path.depth == 1]
        parts = [f"{path.line.entry.variable.name} {_percent(path.share)}" for path in paths]
        more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
        return f"{total.headline()}: {', '.join(parts[:MOST_PARTS])}{more}".removesuffix(": ")

    def view(self) -> list[Any]:
        """What the terminal prints: the tree with shares of the total, then the rest of the data."""
        data = self.to_json()
        del data["lines"]
        rows = [
            {
                "line": _INDENT * path.depth + path.line.entry.variable.name,
                **_cells(path.line),
                "share": _percent(path.share),
                "meaning": path.line.entry.variable.meaning,
                "left out": count(path.left_out, "input") if path.left_out else "",
            }
            for path in self.receipt.paths(VIEW_DEPTH, VIEW_LEAST_SHARE)
        ]
        return [rows, data]

    def to_json(self) -> dict[str, Any]:
        """The lines as JSON data."""
        return {**self.receipt.to_data(), "notes": list(self.notes)}


@takes(GIVEN)
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


def _cells(line: ReceiptLine) -> dict[str, str]:
    """Value and interval of a line, as text with its unit."""
    value = line.entry.value
    if value is None:
        return {"value": "", "90 %": ""}
    shown = line.entry.variable.figure(value, line.lower, line.upper)
    return {"value": shown.text, "90 %": shown.interval.strip()}


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"
