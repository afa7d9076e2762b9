"""`assay.speak`: text to speech as a function."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from assay.engine.loading.speech_files import speech_folder
from assay.lazy_import import np
from assay.speech.kokoro.voice_names import DEFAULT_VOICE

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.speech.kokoro.speaker import Sentence


@dataclass(frozen=True, slots=True)
class Speech:
    """What was said."""

    waveform: npt.NDArray[np.float32]
    rate: int
    sentences: tuple[Sentence, ...]

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.waveform) / self.rate

    def save(self, path: str | PathLike[str]) -> None:
        """Write a WAV file."""
        from assay.speech.wav import check_wav_path, pcm16, wav_header

        check_wav_path(path)
        samples = pcm16(self.waveform)
        Path(path).write_bytes(wav_header(self.rate, len(samples)) + samples)


def speak(
    text: str,
    *,
    voice: str = DEFAULT_VOICE,
    speed: float = 1.0,
    seed: int | None = 0,
    compute_type: str = "default",
    device: str = "cpu",
) -> Speech:
    """Say a text with Kokoro, which `assay pull kokoro` has downloaded.

    A voice may be a mixture, such as "af_heart:2+am_adam". The seed is that of the noise in the
    source that the model filters; the same seed gives the same samples. A `compute_type` of "bfloat16" is faster and
    less exact.
    """
    from assay.speech.kokoro.harmonics import SAMPLE_RATE
    from assay.speech.kokoro.speaker import Speaker, check_request

    check_request(text, voice, speed)
    speaker = Speaker(speech_folder("kokoro"), device, compute_type)
    speaker.check_words(text, voice)
    said = tuple(speaker.stream(text, voice, speed=speed, seed=seed))
    silent = np.zeros(0, np.float32)
    waveform = np.concatenate([sentence.waveform for sentence in said] or [silent])
    return Speech(waveform, SAMPLE_RATE, said)
