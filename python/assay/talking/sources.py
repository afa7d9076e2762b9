"""Where speech comes from: a recording, as fast as it was recorded or at once, or a microphone."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.errors import InputError
from assay.lazy_import import np
from assay.speech.voice_activity import CHUNK, SAMPLE_RATE

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


class Source(Protocol):
    """A stream of chunks of 512 samples at 16 kHz."""

    @property
    def is_live(self) -> bool:
        """Whether time goes on while nobody reads."""

    @property
    def is_over(self) -> bool:
        """Whether nothing but silence comes."""

    def chunks(self) -> Iterator[Floats]:
        """The chunks, each when its last sample has been spoken; without an end."""

    def when(self, sample: int) -> float:
        """When a sample was spoken, by `time.perf_counter`."""


class RecordedSource:
    """A recording, and silence behind it."""

    def __init__(self, samples: Floats, *, is_live: bool) -> None:
        """Stream samples of 16 kHz; a live one takes as long as its recording did."""
        self.is_live = is_live
        self._samples = samples
        self._began = time.perf_counter()
        self._position = 0

    @property
    def is_over(self) -> bool:
        """Whether the recording has ended."""
        return self._position >= len(self._samples)

    def chunks(self) -> Iterator[Floats]:
        """The chunks of the recording, then zeros."""
        self._began = time.perf_counter()
        while True:
            chunk = self._samples[self._position : self._position + CHUNK]
            if len(chunk) < CHUNK:
                chunk = np.pad(chunk, (0, CHUNK - len(chunk)))
            self._position += CHUNK
            if self.is_live:
                time.sleep(max(0.0, self.when(self._position) - time.perf_counter()))
            yield chunk

    def when(self, sample: int) -> float:
        """When a sample is spoken."""
        return self._began + sample / SAMPLE_RATE


class Microphone:
    """What a microphone hears, until ctrl-c."""

    is_live: Final = True
    is_over: Final = False

    def __init__(self, sound: Any) -> None:
        """Listen through the package sounddevice."""
        self._sound = sound
        self._chunks: queue.SimpleQueue[Floats] = queue.SimpleQueue()
        self._first: float | None = None

    def chunks(self) -> Iterator[Floats]:
        """The chunks as they come."""
        with self._sound.InputStream(
            samplerate=SAMPLE_RATE,
            channels=1,
            dtype="float32",
            blocksize=CHUNK,
            callback=self._hear,
        ):
            while True:
                yield self._chunks.get()

    def when(self, sample: int) -> float:
        """When a sample was heard."""
        return (self._first or time.perf_counter()) + sample / SAMPLE_RATE

    def _hear(self, block: Any, frames: int, times: Any, status: Any) -> None:
        if self._first is None:
            self._first = time.perf_counter() - frames / SAMPLE_RATE
        self._chunks.put(np.array(block[:, 0], np.float32))


def sounddevice(purpose: str) -> Any:
    """The package sounddevice, which speaks to the machine's sound card."""
    try:
        import sounddevice as sound
    except (ImportError, OSError) as error:
        raise InputError(
            f"{purpose}: expected the package sounddevice and PortAudio, got: {error}",
            "pip install sounddevice; or give a recording: assay talk question.wav -o answer.wav",
        ) from None
    return sound
