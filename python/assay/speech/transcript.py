"""What a transcription gives: segments of text with times, and words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Progress = Callable[[float, float], None]
"""Called with the seconds that are done and those of the recording."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the text."""

    text: str
    """With the space before it."""
    start: float
    end: float
    """Seconds from the start of the recording."""
    probability: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the text, between two timestamps."""

    start: float
    end: float
    text: str
    tokens: tuple[int, ...]
    temperature: float
    average_log_probability: float
    compression_ratio: float
    no_speech_probability: float | None
    """None where a model has none."""
    seek: float
    """Where the 30 seconds began that it was heard in."""
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of a recording."""

    segments: Sequence[Segment]
    language: str
    language_probability: float
    """1 where the language was given or the model knows one only."""
    seconds: float

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(segment.text for segment in self.segments).strip()
