"""Alternatives of which one alone has an answer: that is no comparison, and is refused or asked otherwise."""

from __future__ import annotations

import re
from typing import Final

from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.errors import InputError

NO_ANSWER: Final = "no answer"
"""How the row of an alternative without an answer begins."""
FEWEST_OF_EACH: Final = "one of each is too small: each on the fewest GPUs that hold the model"
_COUNTED: Final = re.compile(r"(?<![\d.])\b(?:1|one|single)\b(?!\.\d)")


def is_alone(outcome: Outcome) -> bool:
    """Whether fewer than two of the alternatives have an answer."""
    failed = sum(text.startswith(NO_ANSWER) for _, text in outcome.rows)
    return failed > 0 and len(outcome.rows) - failed < 2


def is_by_article(reading: Reading) -> bool:
    """Whether articles alone say one GPU, as in "a B200 or an H100": one of a kind, not a number."""
    counts = [part for part in reading.mentions if part.slot == "gpus"]
    articles = all(part.value == 1 and part.words == "one" for part in counts)
    return bool(counts) and articles and _COUNTED.search(reading.text) is None


def no_comparison(outcome: Outcome) -> InputError:
    """Why there is nothing to compare: the first alternative without an answer, and its reason."""
    name, text = next(row for row in outcome.rows if row[1].startswith(NO_ANSWER))
    reason = text.removeprefix(f"{NO_ANSWER}: ")
    return InputError(
        f"no comparison: {name}: {reason}",
        "leave the number of GPUs out: the fewest of each are taken then",
    )
