"""When somebody begins to speak, pauses and has said all, from the probability of speech in each chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from assay.errors import InputError
from assay.speech.voice_activity import CHUNK, SAMPLE_RATE

_HYSTERESIS: Final = 0.15
"""How far below the threshold a probability is silence, as in the silero-vad package."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """When a turn begins and ends, in seconds."""

    threshold: float = 0.5
    """The probability from which on it is speech."""
    least_speech: float = 0.16
    """Shorter sounds are none."""
    pause: float = 0.16
    """Silence after which an answer is prepared; it is dropped if speech goes on."""
    silence: float = 0.5
    """Silence that ends a turn."""
    padding: float = 0.3
    """What is heard before the first chunk of speech: quiet consonants."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise InputError(f"threshold: expected a number from 0 to 1, got {self.threshold:g}")
        if not 0 < self.pause <= self.silence:
            raise InputError(
                f"silence: expected at least {self.pause:g} s, got {self.silence:g}",
                "speech has shorter gaps, as before a plosive",
            )


class Kind(Enum):
    """What happened."""

    BEGAN = "began"
    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened in a stream, and the samples that it concerns."""

    kind: Kind
    start: int
    """The first sample of the turn, with its padding."""
    end: int
    """The sample behind the last chunk of speech."""


class TurnDetector:
    """Turns of a stream of probabilities, each of 512 samples at 16 kHz."""

    def __init__(self, options: TurnOptions) -> None:
        """Detect turns with these options."""
        self._options: Final = options
        self._chunks = 0
        self._start: int | None = None
        self._end = 0
        self._speech = 0
        """Samples of speech in this turn."""
        self._began = self._paused = False

    @property
    def is_idle(self) -> bool:
        """Whether nobody speaks."""
        return self._start is None

    @property
    def needed_from(self) -> int:
        """The first sample that a turn may still need."""
        now = self._chunks * CHUNK
        return max(0, now - self._padding) if self._start is None else self._start

    def push(self, probability: float) -> Iterator[Event]:
        """What the next chunk tells."""
        options = self._options
        at = self._chunks * CHUNK
        self._chunks += 1
        low = max(options.threshold - _HYSTERESIS, 0.01)
        is_speech = probability >= options.threshold or (
            self._start is not None and not self._paused and probability >= low
        )
        if is_speech:
            yield from self._spoken(at)
        elif self._start is not None:
            yield from self._silent(at + CHUNK - self._end)

    @property
    def _padding(self) -> int:
        return round(self._options.padding * SAMPLE_RATE)

    def _spoken(self, at: int) -> Iterator[Event]:
        if self._start is None:
            self._start, self._speech = max(0, at - self._padding), 0
        self._end = at + CHUNK
        self._speech += CHUNK
        if self._paused:
            self._paused = False
            yield self._event(Kind.RESUMED)
        if not self._began and self._speech >= self._options.least_speech * SAMPLE_RATE:
            self._began = True
            yield self._event(Kind.BEGAN)

    def _silent(self, silence: int) -> Iterator[Event]:
        if not self._began:
            # A sound that was too short for speech.
            if silence >= self._options.silence * SAMPLE_RATE:
                self._start = None
            return
        if not self._paused and silence >= self._options.pause * SAMPLE_RATE:
            self._paused = True
            yield self._event(Kind.PAUSED)
        if silence >= self._options.silence * SAMPLE_RATE:
            yield self._event(Kind.ENDED)
            self._start, self._began, self._paused = None, False, False

    def _event(self, kind: Kind) -> Event:
        assert self._start is not None
        return Event(kind, self._start, self._end)
