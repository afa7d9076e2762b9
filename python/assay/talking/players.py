"""Where answers go: a loudspeaker, or a timeline of when it would have said what."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.lazy_import import np
from assay.speech.kokoro.harmonics import SAMPLE_RATE

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


class Player(Protocol):
    """Plays samples of 24 kHz in order."""

    @property
    def left(self) -> float:
        """Seconds that are still to be heard."""

    def play(self, samples: Floats) -> None:
        """Play these after all that came before."""

    def stop(self) -> float:
        """Be silent at once; returns the seconds that are not heard any more."""


class Timeline:
    """Plays nothing, but knows what would have been heard when."""

    def __init__(self, *, is_live: bool) -> None:
        """Without `is_live` no time passes: everything is heard, and without gaps."""
        self._is_live: Final = is_live
        self._parts: list[Floats] = []
        self._until = 0.0
        self.gaps = 0.0
        """Seconds of silence inside of answers, because the next piece came too late."""

    @property
    def left(self) -> float:
        """Seconds that are still to be heard."""
        return max(0.0, self._until - time.perf_counter()) if self._is_live else 0.0

    def play(self, samples: Floats) -> None:
        """Play these after all that came before."""
        now = time.perf_counter()
        self._until = max(self._until, now) + len(samples) / SAMPLE_RATE
        self._parts.append(samples)

    def gap(self) -> None:
        """Silence up to now since the last sample, inside of an answer."""
        silence = time.perf_counter() - self._until
        if self._is_live and silence > 0:
            self.gaps += silence
            self._parts.append(np.zeros(round(silence * SAMPLE_RATE), np.float32))

    def stop(self) -> float:
        """Cut off what has not been heard."""
        lost = self.left
        cut = round(lost * SAMPLE_RATE)
        while cut > 0 and self._parts:
            last = self._parts.pop()
            if len(last) > cut:
                self._parts.append(last[: len(last) - cut])
            cut -= len(last)
        self._until = time.perf_counter()
        return lost

    def waveform(self) -> Floats:
        """All that was heard, answer after answer."""
        return np.concatenate(self._parts) if self._parts else np.zeros(0, np.float32)


class Loudspeaker:
    """Plays through the package sounddevice."""

    def __init__(self, sound: Any) -> None:
        """Open the loudspeaker."""
        self._waiting: deque[Floats] = deque()
        self._lock = threading.Lock()
        self._stream = sound.OutputStream(
            samplerate=SAMPLE_RATE, channels=1, dtype="float32", callback=self._fill
        )
        self._stream.start()

    @property
    def left(self) -> float:
        """Seconds that are still to be heard."""
        with self._lock:
            return sum(len(part) for part in self._waiting) / SAMPLE_RATE

    def play(self, samples: Floats) -> None:
        """Play these after all that came before."""
        with self._lock:
            self._waiting.append(samples)

    def stop(self) -> float:
        """Be silent at once."""
        with self._lock:
            lost = sum(len(part) for part in self._waiting) / SAMPLE_RATE
            self._waiting.clear()
        return lost

    def close(self) -> None:
        """Close the loudspeaker."""
        self._stream.stop()
        self._stream.close()

    def _fill(self, block: Any, frames: int, times: Any, status: Any) -> None:
        block.fill(0)
        done = 0
        with self._lock:
            while self._waiting and done < frames:
                part = self._waiting.popleft()
                count = min(len(part), frames - done)
                block[done : done + count, 0] = part[:count]
                if count < len(part):
                    self._waiting.appendleft(part[count:])
                done += count
