"""Transcribes only what is speech: pauses are cut out, and times are put back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.lazy_import import np
from assay.speech.log_mel import RATE
from assay.speech.transcript import Segment, Transcript, Word
from assay.speech.voice_activity import Segment as Speech, VoiceActivity

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class VadOptions:
    """What a pause is, in seconds; defaults are those of faster-whisper's VAD filter."""

    threshold: float = 0.5
    """The probability of speech from which on it is speech."""
    least_speech: float = 0.0
    least_silence: float = 2.0
    """Silence that is cut out is at least this long."""
    padding: float = 0.4
    """Of each pause this much is left on either side."""

    def as_options(self) -> dict[str, Any]:
        """The options of `VoiceActivity.segments`."""
        return {
            "threshold": self.threshold,
            "least_speech": self.least_speech,
            "least_silence": self.least_silence,
            "padding": self.padding,
        }


class VadFilter:
    """A recording's speech in one piece, and where each part of it was."""

    def __init__(self, samples: Floats, parts: Sequence[Speech]) -> None:
        """Join these parts of a recording."""
        self.parts = tuple(parts)
        kept = [samples[part.start : part.end] for part in parts]
        self.samples: Floats = np.concatenate(kept) if kept else np.zeros(0, np.float32)
        self._ends: list[int] = []
        self._cut: list[float] = []
        end = silence = 0
        for part in parts:
            silence += part.start - end
            end = part.end
            self._ends.append(end - silence)
            self._cut.append(silence / RATE)

    @classmethod
    def of(cls, samples: Floats, detector: VoiceActivity, options: VadOptions) -> VadFilter:
        """The speech of a recording of 16 kHz."""
        return cls(samples, detector.segments(samples, **options.as_options()))

    def restored(self, transcript: Transcript, seconds: float) -> Transcript:
        """A transcript of the joined samples, with times of the recording, which has `seconds`.

        A word is in one part whole. The start of a segment where two parts meet is in the second, its end in the first.
        """
        segments = tuple(self.segment(segment) for segment in transcript.segments)
        return replace(transcript, segments=segments, seconds=seconds)

    def segment(self, segment: Segment) -> Segment:
        """A segment of the joined samples, with times of the recording."""
        if not segment.words:
            start = self._time(segment.start, self._part(segment.start))
            end = self._time(segment.end, self._part(segment.end, is_end=True))
            return replace(segment, start=start, end=end)
        words = tuple(self._word(word) for word in segment.words)
        return replace(segment, start=words[0].start, end=words[-1].end, words=words)

    def _word(self, word: Word) -> Word:
        part = self._part((word.start + word.end) / 2)
        return replace(word, start=self._time(word.start, part), end=self._time(word.end, part))

    def _part(self, seconds: float, *, is_end: bool = False) -> int:
        sample = int(seconds * RATE)
        if is_end and sample in self._ends:
            return self._ends.index(sample)
        return min(bisect_right(self._ends, sample), len(self._ends) - 1)

    def _time(self, seconds: float, part: int) -> float:
        # Whisper's own times are multiples of 0.02 s.
        return round(self._cut[part] + seconds, 2)
