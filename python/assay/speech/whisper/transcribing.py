"""Transcribes recordings of any length, 30 seconds after 30 seconds."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from assay.errors import InputError
from assay.lazy_import import np
from assay.speech.layers import Buffers
from assay.speech.log_mel import FRAMES_PER_SECOND, RATE, log_mel
from assay.speech.transcript import Progress, Segment, Transcript
from assay.speech.whisper import word_times
from assay.speech.whisper.decoder import Encoded
from assay.speech.whisper.languages import LANGUAGES
from assay.speech.whisper.loading import WhisperModel
from assay.speech.whisper.search import Hypothesis, Search, SearchOptions, SearchResult
from assay.speech.whisper.segments import Piece, split
from assay.speech.whisper.token_rules import TokenRules, log_softmax

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

TASKS: Final = ("transcribe", "translate")
_RESET_TEMPERATURE: Final = 0.5
"""Text that was sampled above this temperature is no context for what follows."""


@dataclass(frozen=True, slots=True)
class TranscribeOptions:
    """How a recording is transcribed; defaults are those of faster-whisper and openai/whisper."""

    language: str | None = None
    """A code; None takes the likeliest of the first 30 seconds."""
    task: str = "transcribe"
    search: SearchOptions = field(default_factory=SearchOptions)
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """Tried in order until a text is neither too repetitive nor too unlikely."""
    compression_ratio_threshold: float = 2.4
    log_probability_threshold: float = -1.0
    no_speech_threshold: float = 0.6
    previous_text: bool = True
    """Whether the text so far is the context of the next 30 seconds."""
    prompt: str | None = None
    timestamps: bool = True
    word_times: bool = False
    latest_start: float = 1.0
    """The latest time, in seconds, at which the text of 30 seconds may begin."""
    suppress: tuple[int, ...] = ()
    """Tokens that are not generated besides those that are not said."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """The text of 30 seconds and how it was chosen."""

    best: Hypothesis
    no_speech: float
    temperature: float
    compression_ratio: float


class Transcriber:
    """Transcribes recordings with one model; not for use by two threads at once."""

    def __init__(self, model: WhisperModel, options: TranscribeOptions) -> None:
        """Transcribe with these options."""
        if options.task not in TASKS:
            raise InputError(f"task: expected {' or '.join(TASKS)}, got {options.task}")
        vocabulary = model.vocabulary
        is_english = options.task == "transcribe" and options.language in (None, "en")
        if not vocabulary.is_multilingual and not is_english:
            what = f"language {options.language}"
            if options.task != "transcribe":
                what = f"task {options.task}"
            raise InputError(
                f"{what}: expected a model of several languages, got {model.files.path.name}, "
                "an English one",
                "whisper-tiny has several: assay pull whisper-tiny",
            )
        if options.language is not None and vocabulary.is_multilingual:
            vocabulary.language(options.language)
        self._model: Final = model
        self._options: Final = options
        # A graph reads the states of all 30 seconds in the same memory.
        is_gpu = model.decoder.device.capabilities.is_gpu
        self._buffers = Buffers(model.decoder.device, model.decoder.dtype) if is_gpu else None
        self._search = Search(model.decoder, vocabulary, options.search)
        self._rules = TokenRules(
            vocabulary,
            timestamps=options.timestamps,
            suppress=(*vocabulary.not_said, *options.suppress),
            latest_start=options.latest_start,
        )

    def transcribe(self, samples: Floats, progress: Progress | None = None) -> Transcript:
        """The text of samples at 16 kHz."""
        features = log_mel(samples, self._model.encoder.mels)
        language, probability = self.language(features)
        segments = tuple(self.segments(features, language, progress))
        return Transcript(segments, language, probability, samples.size / RATE)

    def stream(self, samples: Floats) -> Iterator[Segment]:
        """The segments of samples at 16 kHz, as they are heard."""
        features = log_mel(samples, self._model.encoder.mels)
        yield from self.segments(features, self.language(features)[0])

    def language(self, features: Floats) -> tuple[str, float]:
        """The language that was given or that the first 30 seconds are in, and its probability."""
        model, given = self._model, self._options.language
        if not model.vocabulary.is_multilingual:
            return "en", 1.0
        if given is not None:
            return given, 1.0
        encoded = self._encode(features, 0)
        probabilities = self.language_probabilities(encoded)
        code = max(probabilities, key=lambda name: probabilities[name])
        return code, probabilities[code]

    def language_probabilities(self, encoded: Encoded) -> dict[str, float]:
        """The probability of each language."""
        decoder, vocabulary = self._model.decoder, self._model.vocabulary
        hidden, _ = decoder.forward(
            [[vocabulary.transcript_start]], [np.empty(0, np.int32)], encoded, decoder.cache(0)
        )
        tokens = list(vocabulary.language_tokens())
        scores = np.exp(log_softmax(decoder.logits(hidden)[:, tokens]))[0]
        return dict(zip(LANGUAGES, scores.tolist(), strict=False))

    def segments(
        self, features: Floats, language: str, progress: Progress | None = None
    ) -> Iterator[Segment]:
        """Segments as they are heard."""
        options, model = self._options, self._model
        # The last frame is of the zeros behind the recording.
        content = features.shape[1] - 1
        context: list[int] = []
        if options.prompt:
            context += model.vocabulary.encode(" " + options.prompt.strip())
        seek, last_word_end = 0, 0.0
        while seek < content:
            size = min(model.encoder.frames, content - seek)
            encoded = self._encode(features[:, :content], seek)
            heard = self._heard(encoded, self._prompt(context, language))
            began, seek = seek, seek + size
            if self._is_silence(heard):
                if progress is not None:
                    progress(seek / FRAMES_PER_SECOND, content / FRAMES_PER_SECOND)
                continue
            pieces, seek, ends_in_time = split(heard.best.tokens, model.vocabulary, began, size)
            if options.word_times:
                pieces = word_times.with_words(
                    model, encoded, pieces, language, began, size, last_word_end
                )
                ends = [piece.words[-1].end for piece in pieces if piece.words]
                if ends:
                    last_word_end = ends[-1]
                    if not ends_in_time and last_word_end > began / FRAMES_PER_SECOND:
                        seek = round(last_word_end * FRAMES_PER_SECOND)
            for piece in pieces:
                text = model.vocabulary.decode(piece.tokens)
                if piece.start == piece.end or not text.strip():
                    continue
                context.extend(piece.tokens)
                yield self._segment(piece, text, heard, began)
            if not options.previous_text or heard.temperature > _RESET_TEMPERATURE:
                context = []
            if progress is not None:
                progress(min(seek, content) / FRAMES_PER_SECOND, content / FRAMES_PER_SECOND)

    def _segment(self, piece: Piece, text: str, heard: _Heard, began: int) -> Segment:
        return Segment(
            start=piece.start,
            end=piece.end,
            text=text,
            tokens=piece.tokens,
            temperature=heard.temperature,
            average_log_probability=heard.best.average,
            compression_ratio=heard.compression_ratio,
            no_speech_probability=heard.no_speech,
            seek=began / FRAMES_PER_SECOND,
            words=piece.words,
        )

    def _encode(self, features: Floats, seek: int) -> Encoded:
        """The states of 30 seconds of features; zeros follow where they end."""
        frames = self._model.encoder.frames
        part = features[:, seek : seek + frames]
        if part.shape[1] < frames:
            part = np.pad(part, ((0, 0), (0, frames - part.shape[1])))
        return self._model.decoder.encoded(self._model.encoder.forward(part), 1, self._buffers)

    def _prompt(self, context: Sequence[int], language: str) -> list[int]:
        vocabulary = self._model.vocabulary
        prompt: list[int] = []
        if context:
            prompt.append(vocabulary.previous_text)
            prompt.extend(context[-(self._model.decoder.context // 2 - 1) :])
        prompt.extend(vocabulary.start(language, self._options.task))
        if not self._options.timestamps:
            prompt.append(vocabulary.no_timestamps)
        return prompt

    def _heard(self, encoded: Encoded, prompt: Sequence[int]) -> _Heard:
        """The text of the first temperature whose text is good enough, or the likeliest."""
        options = self._options
        tried: list[_Heard] = []
        for temperature in options.temperatures:
            result = self._search.run(encoded, prompt, self._rules, temperature)
            heard = self._judged(result, temperature)
            tried.append(heard)
            is_unlikely = heard.best.average < options.log_probability_threshold
            if is_unlikely and heard.no_speech > options.no_speech_threshold:
                return heard
            if not is_unlikely and heard.compression_ratio <= options.compression_ratio_threshold:
                return heard
        plain = [
            heard
            for heard in tried
            if heard.compression_ratio <= options.compression_ratio_threshold
        ]
        best = max(plain or tried, key=lambda heard: heard.best.average)
        return replace(best, temperature=tried[-1].temperature)

    def _judged(self, result: SearchResult, temperature: float) -> _Heard:
        text = self._model.vocabulary.decode(result.best.tokens).strip().encode()
        ratio = len(text) / len(zlib.compress(text))
        return _Heard(result.best, result.no_speech, temperature, ratio)

    def _is_silence(self, heard: _Heard) -> bool:
        return (
            heard.no_speech > self._options.no_speech_threshold
            and heard.best.average <= self._options.log_probability_threshold
        )
