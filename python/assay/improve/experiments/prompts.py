"""Prompts of the correctness gate: short, of several kinds, some with a known answer."""

from __future__ import annotations

from typing import Final, NamedTuple


class ProbePrompt(NamedTuple):
    """A prompt; `answer` is a word that a model which works is likely to say."""

    text: str
    answer: str = ""


PROMPTS: Final = (
    ProbePrompt("The capital of France is", "Paris"),
    ProbePrompt("Monday, Tuesday, Wednesday, Thursday,", "Friday"),
    ProbePrompt("one, two, three, four, five, six,", "seven"),
    ProbePrompt("Gravity is the force that"),
    ProbePrompt("def fibonacci(n):\n    if n < 2:\n        return n\n    return", "fibonacci"),
    ProbePrompt("Question: What color is the sky on a clear day?\nAnswer:", "blue"),
)
