"""`assay transcribe`: the text of a recording, by a model known by name or given as files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from assay._native import limit_kernel_threads
from assay.answers import Answer, Progress, silent
from assay.engine.loading import sources
from assay.engine.loading.speech_files import speech_folder
from assay.errors import InputError, unknown_name
from assay.speech.log_mel import RATE
from assay.speech.sound_files import Recording, read_sound
from assay.speech.vad_filter import VadFilter, VadOptions
from assay.speech.voice_activity import Segment as Speech, VoiceActivity
from assay.speech.whisper.languages import LANGUAGES, language_code
from assay.speech.whisper.loading import WhisperModel, open_files
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions, Transcriber
from assay.speech.whisper.transcript import Segment, Transcript

MODELS: Final = ("whisper-tiny.en", "whisper-base.en", "whisper-tiny")
DEFAULT_MODEL: Final = MODELS[0]


@dataclass(frozen=True, kw_only=True)
class TranscribeAnswer(Answer):
    """The text of a recording."""

    model: str
    recording: Recording
    transcript: Transcript
    task: str
    speech: tuple[Speech, ...] | None = None
    """What voice activity took as speech, in samples at 16 kHz; None where it was not asked for."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Parts of the text with their times."""
        return tuple(self.transcript.segments)

    @property
    def text(self) -> str:
        """The whole text."""
        return self.transcript.text

    def to_json(self) -> Any:
        """Text, segments and words with their times in seconds."""
        transcript, recording = self.transcript, self.recording
        return {
            "model": self.model,
            "task": self.task,
            "language": transcript.language,
            "language_probability": transcript.language_probability,
            "duration": recording.seconds,
            "sample_rate": recording.stored_rate,
            "channels": recording.channels,
            "encoding": recording.encoding,
            "speech": self._speech(),
            "text": self.text,
            "segments": [segment_data(segment) for segment in transcript.segments],
        }

    def _speech(self) -> list[dict[str, float]] | None:
        if self.speech is None:
            return None
        return [{"start": part.start / RATE, "end": part.end / RATE} for part in self.speech]


def segment_data(segment: Segment) -> dict[str, Any]:
    """A segment as data."""
    return {
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.average_log_probability,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_probability,
        "seek": segment.seek,
        "words": [
            {
                "word": word.text,
                "start": word.start,
                "end": word.end,
                "probability": word.probability,
            }
            for word in segment.words
        ],
    }


def open_whisper(model: str) -> WhisperModel:
    """A model of speech by name, or by the path of its files."""
    return WhisperModel(open_files(_path(model)))


def voice_activity() -> VoiceActivity:
    """The model that hears where there is speech."""
    return VoiceActivity(speech_folder("silero-vad"))


def _path(model: str) -> Path:
    if model in MODELS:
        if not sources.is_pulled(model):
            raise InputError(
                f"{model}: expected a downloaded model, got no such file",
                f"fetch it with: assay pull {model}",
            )
        return sources.pulled_path(model)
    path = Path(model)
    if not path.exists():
        raise unknown_name("speech model", model, MODELS)
    return path


def transcribe(
    source: str | Path | bytes,
    model: str = DEFAULT_MODEL,
    *,
    language: str | None = None,
    task: str = "transcribe",
    beam_size: int = 5,
    word_times: bool = False,
    timestamps: bool = True,
    prompt: str | None = None,
    temperature: float | None = None,
    vad: bool | VadOptions = False,
    threads: int | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> TranscribeAnswer:
    """The text of a recording, WAV or FLAC, given as a path or as bytes.

    `language` is a code or a name; without it the first 30 seconds tell. The task `translate`
    gives English text. With `vad`, silence is cut out before and times are those of the whole
    recording, as in faster-whisper's VAD filter (`assay pull silero-vad`). Without a `temperature`,
    higher ones are tried where the text is repetitive or unlikely.
    """
    if device != "cpu":
        raise InputError(f"device: expected cpu for speech, got {device}")
    if not 1 <= beam_size <= 16:
        raise InputError(f"beam_size: expected 1 to 16, got {beam_size}")
    if temperature is not None and not 0 <= temperature <= 1:
        raise InputError(f"temperature: expected 0 to 1, got {temperature}")
    if threads is not None:
        if threads < 1:
            raise InputError(f"threads: expected 1 or more, got {threads}")
        limit_kernel_threads(threads)
    options = TranscribeOptions(
        language=None if language is None else language_code(language),
        task=task,
        search=SearchOptions(beam_size=beam_size),
        prompt=prompt,
        timestamps=timestamps,
        word_times=word_times,
    )
    if temperature is not None:
        options = replace(options, temperatures=(temperature,))
    detector = voice_activity() if vad else None
    recording = read_sound(source, RATE)
    opened = open_whisper(model)

    def report(done: float, seconds: float) -> None:
        progress(f"{done:.0f} of {seconds:.0f} seconds transcribed")

    transcriber = Transcriber(opened, options)
    if detector is None:
        speech = None
        transcript = transcriber.transcribe(recording.samples, report)
    else:
        settings = vad if isinstance(vad, VadOptions) else VadOptions()
        kept = VadFilter.of(recording.samples, detector, settings)
        speech = kept.parts
        transcript = kept.restored(transcriber.transcribe(kept.samples, report), recording.seconds)
    notes = []
    if language is None and opened.vocabulary.is_multilingual:
        heard = LANGUAGES[transcript.language]
        notes.append(
            f"language: {heard}, with a probability of {transcript.language_probability:.2f}, "
            "from the first 30 seconds"
        )
    if not transcript.segments:
        notes.append("no speech was heard")
    return TranscribeAnswer(
        model=model,
        recording=recording,
        transcript=transcript,
        task=task,
        speech=speech,
        notes=notes,
    )
