"""How many tokens a server makes of a text, told from what it counts of a few.

Words and marks are about the tokens of most vocabularies, and a fifth of those of bytes. The tokenizer is
the server's, but every answer says how many tokens its prompt had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from assay.load.workloads.measurement import Measurement
from assay.load.workloads.texts import CountTokens, Writer, approximate_tokens
from assay.load.workloads.workload import PlannedRequest, Window, Workload

SENTENCES: Final = (1, 1, 1, 1, 6, 6, 6, 6)
"""Of the texts that a server counts: what comes before every text is told from the short ones."""


@dataclass(frozen=True, slots=True)
class ServedCount:
    """Words and letters weighed as a server's counts say.

    >>> ServedCount(of_none=1.0, of_a_piece=0.0, of_a_letter=1.0)("The harbor opens at nine.")
    26
    """

    of_none: float
    """Tokens before every text: a first token, a template of a chat."""
    of_a_piece: float
    """Tokens of a word or mark, whatever its length."""
    of_a_letter: float
    """Tokens of a character: of vocabularies of bytes, and of long words."""

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        of_pieces = self.of_a_piece * approximate_tokens(text)
        return max(round(self.of_none + of_pieces + self.of_a_letter * len(text)), 1)


def count_of(measure: Callable[[Workload, Window], Measurement]) -> ServedCount | None:
    """How a server counts; None where it does not say."""
    import numpy as np

    texts = [
        " ".join(Writer(f"count {number} {place}").sentence() for place in range(sentences))
        for number, sentences in enumerate(SENTENCES)
    ]
    requests = tuple(PlannedRequest(number, text, 1) for number, text in enumerate(texts))
    measured = measure(
        Workload("count", "texts of two lengths, for how many tokens they have", requests),
        Window(requests=len(requests)),
    )
    counted = {record.number: record.prompt_tokens for record in measured.records}
    if any(counted.get(number, 0) < 1 for number in range(len(texts))):
        return None
    if counted[len(texts) - 1] <= counted[0]:
        # The same number whatever the text.
        return None
    sizes = np.array([[1.0, approximate_tokens(text), len(text)] for text in texts])
    tokens = np.array([float(counted[number]) for number in range(len(texts))])
    of_none, of_a_piece, of_a_letter = np.linalg.lstsq(sizes, tokens)[0]
    return ServedCount(float(of_none), float(of_a_piece), float(of_a_letter))


def how_counted(count: CountTokens | None) -> str:
    """For people: by what the lengths of prompts were chosen.

    >>> how_counted(ServedCount(of_none=1.0, of_a_piece=0.0, of_a_letter=1.0))
    'as the server counts, 4.8 tokens a word or mark'
    """
    if count is None:
        return "approximate: counted as words and marks"
    if isinstance(count, ServedCount):
        of_a_piece = (count(_SAMPLE) - count.of_none) / approximate_tokens(_SAMPLE)
        return f"as the server counts, {of_a_piece:.1f} tokens a word or mark"
    return "counted by the model's tokenizer"


_SAMPLE: Final = " ".join(Writer("sample").sentence() for _ in range(8))
