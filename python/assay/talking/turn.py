"""One turn of a conversation: what was heard, what is answered, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.lazy_import import np
from assay.speech.kokoro.harmonics import SAMPLE_RATE
from assay.talking.clauses import Clauses

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SaidPiece:
    """A piece of an answer as speech."""

    text: str
    samples: Floats


@dataclass(slots=True)
class Turn:
    """Prepared when a speaker pauses, and said when the pause was the end of the turn."""

    samples: Floats
    """What was said, at 16 kHz."""
    last_speech: float
    """When the last sample of speech was spoken, by `time.perf_counter`."""
    heard: str | None = None
    clauses: Clauses = field(default_factory=Clauses)
    pieces: list[SaidPiece] = field(default_factory=list)
    request: str | None = None
    is_committed: bool = False
    """Whether the speaker has said all, so that the answer may be heard."""
    is_cancelled: bool = False
    is_complete: bool = False
    """Whether the whole answer has been computed."""
    lost: float = 0.0
    """Seconds of the answer that an interruption cut off."""
    times: dict[str, float] = field(default_factory=dict)
    """Seconds after the last speech: transcript, first_token, first_clause, end_of_turn, first_audio."""

    def mark(self, name: str, now: float) -> None:
        """Note when something happened first."""
        self.times.setdefault(name, now - self.last_speech)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is computed or said."""
        return self.is_cancelled or (self.is_complete and self.is_committed)

    @property
    def said(self) -> str:
        """The pieces that were heard, the last of them perhaps in part."""
        lost = round(self.lost * SAMPLE_RATE)
        pieces = list(self.pieces)
        while pieces and lost >= len(pieces[-1].samples):
            lost -= len(pieces.pop().samples)
        return " ".join(piece.text for piece in pieces)

    def to_json(self, *, is_live: bool) -> dict[str, Any]:
        """The turn as data; times are seconds after the last sample of speech, where that was spoken at its time."""
        return {
            "heard": self.heard,
            "said": self.said,
            "interrupted": self.is_cancelled,
            "speech_seconds": sum(len(piece.samples) for piece in self.pieces) / SAMPLE_RATE
            - self.lost,
            "seconds": dict(sorted(self.times.items(), key=lambda item: item[1]))
            if is_live
            else None,
        }
