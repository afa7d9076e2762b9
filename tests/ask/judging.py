"""How an answer of `assay ask` is judged against the one that was written down before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assay.asking.answering import AskAnswer
from assay.model.language.quantity import parse_quantity

QUESTIONS: list[dict[str, Any]] = [
    row
    for name in (
        "questions.json",
        "further_questions.json",
        "plain_questions.json",
        "stranger_questions.json",
        "words_questions.json",
        "persona_questions.json",
        "fresh_questions.json",
        "second_questions.json",
        "buyer_questions.json",
        "collective_questions.json",
    )
    for row in json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))
]
COUNTED = ("GPU", "node", "replica", "request", "1", "%", "BTU", "BTU/h")


def base(value: float, unit: str) -> float:
    """A number in base units; what is counted per GPU or node is left out."""
    if unit in COUNTED:
        return value
    millions = 1e-6 if "Mtoken" in unit else 1.0
    text = unit.replace("Mtoken", "token").replace("/GPU", "").replace("/node", "")
    text = text.replace("USD/(h*GPU)", "USD/h")
    return parse_quantity(f"{value:.12g} {text}").value * millions


def judge(row: dict[str, Any], answer: AskAnswer) -> str:
    """`right`, `partly` (a name or number of the question unused), `refused` or `wrong`.

    A figure is right where it is in the expected range, or its printed 90 % interval reaches it.
    """
    expect = row["expect"]
    outcome = answer.outcome
    if outcome is None:
        said = f"{answer.problem} {answer.problem.hint if answer.problem else ''}".lower()
        allowed = expect.get("refused") or expect.get("or_refused")
        if allowed:
            return "right" if allowed.lower() in said else "partly"
        return "refused"
    if "refused" in expect:
        return "wrong"
    if "value" in expect:
        low, high, unit = expect["value"]
        value, own_unit = outcome.number
        if value is None or (unit in COUNTED and own_unit.partition("/")[0] not in (unit, "")):
            return "wrong"
        ends = (value, value)
        if (
            outcome.value is None
            and outcome.result.lo is not None
            and outcome.result.hi is not None
        ):
            ends = (outcome.result.lo, outcome.result.hi)
        if base(ends[1], own_unit) < base(low, unit) or base(ends[0], own_unit) > base(high, unit):
            return "wrong"
    if "verdict" in expect and outcome.verdict != expect["verdict"]:
        return "wrong"
    if "choice" in expect and outcome.choice not in (expect["choice"], *expect["choice"].split()):
        return "wrong"
    if "ratio" in expect:
        low, high = expect["ratio"]
        if outcome.ratio is None or not low <= outcome.ratio <= high:
            return "wrong"
    numbers = [
        part.value for part in answer.reading.mentions if isinstance(part.value, float | int)
    ]
    shown = [*outcome.lines, outcome.text, *outcome.assumed]
    shown += [part.words for part in answer.reading.mentions]
    shown += [f"{number * scale:g}" for number in numbers for scale in (1, 1000)]
    return "right" if all(used in " ".join(shown) for used in row["uses"]) else "partly"
