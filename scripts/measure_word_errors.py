"""Word errors of 50 sentences that Kokoro says and other models hear, ours beside faster-whisper's.

    python scripts/measure_word_errors.py [--sentences COUNT] [--model NAME ...]

Needs `assay pull kokoro` and the models; faster-whisper is compared with where it is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.bench.rivals import speech as rivals
from assay.engine.core.transcription import SpeechModel, beams_of
from assay.engine.loading import sources
from assay.engine.loading.speech_files import speech_folder
from assay.speech.kokoro.harmonics import SAMPLE_RATE
from assay.speech.kokoro.speaker import Speaker
from assay.speech.kokoro.voice_names import DEFAULT_VOICE as VOICE
from assay.speech.resampling import resample
from assay.speech.whisper.loading import open_files
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions
from assay.speech.word_errors import edits, words_of

SUBJECTS = (
    "The old fisherman",
    "My younger sister",
    "A careful engineer",
    "The night train",
    "Every good teacher",
)
VERBS = (
    "carried a heavy basket",
    "waited for the morning light",
    "followed the narrow path",
    "painted the garden wall",
    "counted the silver coins",
)
ENDS = ("beside the quiet harbor.", "before the first snow of winter.")
RATE = 16_000


def sentences() -> list[str]:
    """Fifty sentences, each subject with each verb and each end."""
    return [f"{subject} {verb} {end}" for subject in SUBJECTS for verb in VERBS for end in ENDS]


def own(model: str) -> Callable[[Any], str]:
    """What hears with a model of ours, with the beams it has by default."""
    options = TranscribeOptions(search=SearchOptions(beam_size=beams_of(model)))
    transcriber = SpeechModel(model).transcriber(options)
    return lambda samples: transcriber.transcribe(samples).text


def main() -> None:
    """Print the word error rate of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--model", nargs="*", default=["whisper-tiny.en", "moonshine-tiny"])
    given = parser.parse_args()
    hearers = {model: own(model) for model in given.model}
    if rivals.absent("faster-whisper") is None:
        folder = sources.folder_of("whisper-tiny.en")
        not_said = open_files(folder).vocabulary.not_said
        hearers["faster-whisper, tiny.en"] = rivals.faster_whisper(folder, not_said, "float32")
    speaker = Speaker(speech_folder("kokoro"))
    wrong = dict.fromkeys(hearers, 0)
    words = 0
    for text in sentences()[: given.sentences]:
        spoken = np.concatenate([part.waveform for part in speaker.stream(text, VOICE)])
        samples = resample(spoken, SAMPLE_RATE, RATE)
        words += len(words_of(text))
        for name, hear in hearers.items():
            wrong[name] += edits(words_of(text), words_of(hear(samples)))
    for name, count in wrong.items():
        print(f"{name}: {count} of {words} words, {count / words:.2%}")


if __name__ == "__main__":
    main()
