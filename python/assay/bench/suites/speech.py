"""Speech to text and back: real-time factors beside other programs, with the words checked."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import HostClock, SelfTimedClock
from assay.bench.rivals import speech as rivals
from assay.bench.rivals.decoder import usable_cores
from assay.bench.suites import talking
from assay.engine.loading import sources
from assay.engine.loading.speech_files import speech_folder
from assay.errors import InputError
from assay.planner.speech import predict_speech
from assay.planner.speech_work import WINDOW_S
from assay.speech.file_names import SILERO_VAD
from assay.speech.transcript import Transcript
from assay.speech.word_errors import word_error_rate

RATE: Final = 16_000
ROUNDS: Final = 7
VOICE: Final = "af_heart"
SAMPLES: Final = "speech-samples"
TEXTS: Final = {
    "beckett": "Ever tried, ever failed, no matter, try again, fail again, fail better.",
    "two_cities": "It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
    "age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of "
    "Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair, we had "
    "everything before us, we had nothing before us, we were all going direct to Heaven, we were all going "
    "direct the other way -- in short, the period was so far like the present period, that some of its "
    "noisiest authorities insisted on its being received, for good or for evil, in the superlative degree of "
    "comparison only.",
}
"""What the recordings say."""
SENTENCE: Final = (
    "The quick brown fox jumps over the lazy dog, and nobody in the village knows the reason why."
)
SHORT: Final = {1.6: "Good morning.", 1.2: "Hi"}
"""Sentences by the seconds that they last; the second is nearly the shortest that the model says."""
STFT_SECONDS: Final = 600

_HOST: Final = HostClock()
_SELF_TIMED: Final = SelfTimedClock()


class _Run:
    """Recordings and rivals of a run."""

    def __init__(self, settings: Settings) -> None:
        self._chosen = settings.rivals
        self.quick = settings.quick
        self.device = settings.device

    @functools.cached_property
    def recordings(self) -> dict[str, Any]:
        from assay.speech.sound_files import read_sound

        folder = speech_folder(SAMPLES)
        return {name: read_sound(folder / f"{name}.wav", RATE).samples for name in TEXTS}

    def rival(self, name: str, make: Callable[[], Subject]) -> list[Subject | Absent]:
        """A rival, unless others were chosen or it is not installed."""
        if self._chosen and name not in self._chosen:
            return []
        missing = rivals.absent(name)
        return [missing or make()]


def cases(settings: Settings) -> list[Case]:
    """A case for each model that was downloaded."""
    rivals.require(settings.rivals)
    run = _Run(settings)
    recordings = list(TEXTS)[: 1 if settings.quick else None]
    found: list[Case] = []
    if _has("whisper-tiny.en", SAMPLES):
        found += [
            Case(
                f"whisper tiny.en {compute_type}, {name}",
                "RTF",
                _partial(_whisper, run, name, compute_type),
                rounds=ROUNDS,
            )
            for compute_type in ("float32", "int8")
            for name in recordings
        ]
    if _has("whisper-base.en", SAMPLES):
        found.append(
            Case("whisper base.en ggml, beckett", "RTF", _partial(_base, run), rounds=ROUNDS)
        )
    if _has("moonshine-tiny", SAMPLES):
        found.append(
            Case("moonshine tiny, beckett", "RTF", _partial(_moonshine, run), rounds=ROUNDS)
        )
    if _has("kokoro", "whisper-tiny.en"):
        found.append(Case("kokoro, a sentence", "RTF", _partial(_kokoro, run), rounds=ROUNDS))
        found += [
            Case(
                f"kokoro, first audio of {seconds} s",
                "ms",
                _partial(_first_audio, run, text),
                rounds=ROUNDS,
            )
            for seconds, text in SHORT.items()
        ]
    if _has("silero-vad", SAMPLES):
        found.append(
            Case("silero vad, chunk by chunk", "RTF", _partial(_silero, run), rounds=ROUNDS)
        )
    if _has(*talking.MODELS):
        found += talking.cases(settings.quick)
    seconds = 10 if settings.quick else STFT_SECONDS
    found.append(Case(f"stft of {seconds} s", "ms", _partial(_stft, run, seconds), rounds=ROUNDS))
    return found


def _has(*names: str) -> bool:
    return all(sources.is_pulled(name) for name in names)


def _partial(prepare: Callable[..., PreparedCase], *given: Any) -> Callable[[], PreparedCase]:
    return functools.partial(prepare, *given)


def _words(expected: str, heard: Callable[[], str]) -> Check:
    return Check(
        "the text that was said, in word errors", lambda _: word_error_rate(expected, heard()), 0.0
    )


class _Greedy(NamedTuple):
    """What transcribes greedily and at one temperature."""

    model: str
    compute_type: str
    transcribe: Callable[[Any], Transcript]
    not_said: Sequence[int]
    """Tokens that it does not say."""

    def text(self, samples: Any) -> str:
        return self.transcribe(samples).text

    def prediction(self, samples: Any) -> str:
        """What it should take for a recording, by what it computes."""
        heard = self.transcribe(samples)
        seconds = len(samples) / RATE
        windows = math.ceil(seconds / WINDOW_S)
        tokens = sum(len(segment.tokens) for segment in heard.segments) // windows
        return _prediction(
            self.model, seconds, tokens=tokens, beam_size=1, compute_type=self.compute_type
        )


def _prediction(model: str, seconds: float, **given: Any) -> str:
    try:
        answer = predict_speech(model, seconds, **given)
    except InputError as error:
        return f"not predicted: {error}"
    floor = answer.floor_s / seconds
    return f"predicted RTF {answer.real_time_factor:.4f}, floor {floor:.4f}"


def _greedy(model: str, compute_type: str = "default") -> _Greedy:
    from assay.speech.whisper.loading import WhisperModel, open_files
    from assay.speech.whisper.search import SearchOptions
    from assay.speech.whisper.transcribing import TranscribeOptions, Transcriber

    files = open_files(sources.pulled_path(model))
    opened = WhisperModel(files, compute_type=compute_type)
    options = TranscribeOptions(search=SearchOptions(beam_size=1), temperatures=(0.0,))
    transcriber = Transcriber(opened, options)
    return _Greedy(model, compute_type, transcriber.transcribe, opened.vocabulary.not_said)


def _transcription(
    run: _Run,
    name: str,
    own: Callable[[Any], str],
    other: tuple[str, Callable[[], Callable[[Any], str]]],
    predict: Callable[[Any], str] | None = None,
) -> PreparedCase:
    samples = run.recordings[name]
    seconds = len(samples) / RATE
    agreement: list[str] = []

    def make() -> Subject:
        rival = other[1]()
        errors = word_error_rate(own(samples), rival(samples))
        agreement.append(f"the words of {other[0]} differ from ours by {errors:.1%}")
        return Subject(other[0], lambda _: rival(samples), _HOST, seconds)

    others = run.rival(other[0], make)
    return PreparedCase(
        Subject("assay", lambda _: own(samples), _HOST, seconds),
        _words(TEXTS[name], lambda: own(samples)),
        rivals=others,
        note="; ".join(
            ["greedy, one temperature", *agreement, *([predict(samples)] if predict else [])]
        ),
    )


def _whisper(run: _Run, name: str, compute_type: str) -> PreparedCase:
    own = _greedy("whisper-tiny.en", compute_type if compute_type == "int8" else "default")
    folder = sources.folder_of("whisper-tiny.en")
    rival = ("faster-whisper", lambda: rivals.faster_whisper(folder, own.not_said, compute_type))
    return _transcription(run, name, own.text, rival, own.prediction)


def _base(run: _Run) -> PreparedCase:
    own = _greedy("whisper-base.en")
    path = sources.pulled_path("whisper-base.en")
    path = next(path.glob("*.bin")) if path.is_dir() else path
    rival = ("whisper.cpp", lambda: rivals.whisper_cpp(path))
    return _transcription(run, "beckett", own.text, rival, own.prediction)


def _moonshine(run: _Run) -> PreparedCase:
    from assay.speech.moonshine.model import Moonshine

    folder = speech_folder("moonshine-tiny")
    model = Moonshine(folder)

    def other() -> Callable[[Any], str]:
        tokens = rivals.moonshine(folder)
        return lambda samples: model.decode(tokens(samples))

    return _transcription(
        run, "beckett", lambda samples: model.transcribe(samples).text, ("onnxruntime", other)
    )


def _kokoro(run: _Run) -> PreparedCase:
    return _speaking(run, SENTENCE, lambda seconds: (_HOST, seconds))


def _first_audio(run: _Run, text: str) -> PreparedCase:
    return _speaking(run, text, lambda _: (_HOST, 1.0))


def _speaking(
    run: _Run, text: str, clock: Callable[[float], tuple[HostClock, float]]
) -> PreparedCase:
    from assay.speech.kokoro.harmonics import SAMPLE_RATE
    from assay.speech.kokoro.speaker import Speaker
    from assay.speech.resampling import resample

    folder = speech_folder("kokoro")
    speaker = Speaker(folder)
    [sentence] = speaker.stream(text, VOICE)
    timing, amount = clock(sentence.seconds)
    phonemes = sentence.phonemes.text
    hear = _greedy("whisper-tiny.en").text
    expected = _prediction("kokoro", sentence.seconds, phonemes=len(phonemes))

    def speak() -> Any:
        return speaker.model.speak(phonemes, VOICE).waveform

    def make() -> Subject:
        rival = rivals.kokoro(folder)
        tokens = speaker.model.tokens(phonemes)
        style = speaker.model.voices.style(VOICE, len(tokens) - 2)
        return Subject("onnxruntime", lambda _: rival(tokens, style), timing, amount)

    return PreparedCase(
        Subject("assay", lambda _: speak(), timing, amount),
        _words(text, lambda: hear(resample(speak(), SAMPLE_RATE, RATE))),
        rivals=run.rival("onnxruntime", make),
        note=f"{sentence.seconds:.2f} s of speech, heard by whisper tiny.en; {expected}",
    )


def _silero(run: _Run) -> PreparedCase:
    from assay.speech.voice_activity import CHUNK, VoiceActivity

    folder = speech_folder("silero-vad")
    detector = VoiceActivity(folder)
    samples = run.recordings["beckett"]
    samples = samples[: len(samples) // CHUNK * CHUNK]
    seconds = len(samples) / RATE
    expected = detector.probabilities(samples)

    def stream() -> Any:
        detector.reset()
        return np.concatenate([detector.push(chunk) for chunk in samples.reshape(-1, CHUNK)])

    def make() -> Subject:
        rival = rivals.silero(folder / SILERO_VAD)
        return Subject("onnxruntime", lambda _: rival(samples), _HOST, seconds)

    return PreparedCase(
        Subject("assay", lambda _: stream(), _HOST, seconds),
        Check(
            "the whole recording at once, in probability",
            lambda _: float(np.abs(stream() - expected).max()),
            1e-5,
        ),
        rivals=run.rival("onnxruntime", make),
        note="512 samples a call",
    )


def _stft(run: _Run, seconds: int) -> PreparedCase:
    from assay import xp
    from assay.ops import audio

    n_fft, hop = 400, 160
    values = np.random.default_rng(0).standard_normal(seconds * RATE).astype(np.float32)
    x = xp.asarray(values, device=run.device, copy=True)
    window = audio.window("hann", n_fft, device=run.device)
    outputs: list[Any] = []

    def own(_: int) -> float:
        start = time.perf_counter()
        outputs[:] = [audio.stft(x, n_fft, hop=hop, window=window).to_numpy()]
        return time.perf_counter() - start

    def error(number: int) -> float:
        own(number)
        frame = values[100 * hop - n_fft // 2 : 100 * hop + n_fft // 2].astype(float)
        expected = np.fft.rfft(frame * window.to_numpy())
        return float(np.abs(outputs[0][..., 100] - expected).max() / np.abs(expected).max())

    def make() -> Subject:
        import torch

        torch.set_num_threads(usable_cores())
        tensor, shape = torch.from_numpy(values), torch.hann_window(n_fft)

        def call(_: int) -> float:
            start = time.perf_counter()
            torch.stft(tensor, n_fft, hop, window=shape, return_complex=True)
            return time.perf_counter() - start

        return Subject("torch", call, _SELF_TIMED)

    return PreparedCase(
        Subject("assay", own, _SELF_TIMED),
        Check("a frame in double precision", error, 1e-5),
        rivals=run.rival("torch", make),
        note=f"n_fft {n_fft}, hop {hop}",
    )


SUITE: Final = Suite("speech", cases, devices=("cpu",), rivals=tuple(rivals.MODULES))
