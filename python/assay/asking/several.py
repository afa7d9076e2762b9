"""Two questions in one, about the same thing: "how long ... and what does it cost"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assay.asking.outcome import Outcome
from assay.asking.reading import Reading

_JOINT: Final = re.compile(r",? and (?=(?:at )?(?:how (?:much|many|long|fast)|what|which)\b)")
_ASKED: Final = re.compile(
    r"^\W*(?:how (?:long|fast|many (?:days|hours|weeks|months|gpus|tokens|nodes))|what|how much)\W*$"
)
"""A question that has its subject after the second one: "how long and how much ..."."""
_FIGURES: Final = re.compile(r"\bhow (?:long|much|many|fast|often)\b|\bwhat (?!if\b)")
_WORDS: Final = re.compile(
    r"^(?:how (?:long|fast|much|many(?: (?:days|hours|weeks|months|gpus|tokens|nodes))?)|what|which)\b"
)
_MONEY: Final = re.compile(
    r"^how much(?: money)?(?! (?:memory|vram|energy|power|water|electricity|co2|carbon))\b"
)


def asks_several(text: str, most: int = 1) -> bool:
    """Whether a text asks for more than so many figures in words of their own."""
    return len(_FIGURES.findall(text)) > most


def parts_of(reading: Reading) -> tuple[Reading, Reading] | None:
    """The two questions, each with all names and numbers; None where there is one, or more than two."""
    joints = list(_JOINT.finditer(reading.rest))
    if len(joints) != 1 or asks_several(reading.rest, most=2):
        return None
    at, after = joints[0].span()
    first, second = reading.rest[:at], reading.rest[after:]
    texts = reading.text[:at], reading.text[after:]
    if _ASKED.search(first):
        words = _WORDS.search(second)
        subject = second[words.end() :] if words else second
        first, texts = f"{first} {subject}", (f"{texts[0]} {subject}", texts[1])
    # What is asked for in money is said in its own word.
    second = _MONEY.sub("how much cost", second)
    return replace(reading, rest=first, text=texts[0]), replace(reading, rest=second, text=texts[1])


def joined(names: Sequence[str], first: Outcome, second: Outcome) -> Outcome:
    """Both answers; the number is that of the first. What one of them assumes is said of it."""
    shared = set(first.assumed) & set(second.assumed)
    assumed = dict.fromkeys(
        line if line in shared else f"{name}: {line}"
        for name, outcome in zip(names, (first, second), strict=True)
        for line in outcome.assumed
    )
    commands = (
        *(first.commands or (first.result.command,)),
        *(second.commands or (second.result.command,)),
    )
    return replace(
        first, text=f"{first.text}; {second.text}", commands=tuple(dict.fromkeys(commands)),
        assumed=tuple(assumed), notes=(*first.notes, *second.notes),
        rows=[*first.rows, *second.rows],
    )  # fmt: skip
