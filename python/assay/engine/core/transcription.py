"""`assay transcribe`: the text of a recording, by a model known by name or given as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from assay._native import limit_kernel_threads
from assay.answers import Answer, Progress, silent
from assay.engine.loading import sources
from assay.engine.loading.speech_files import speech_folder
from assay.errors import InputError, unknown_name
from assay.runtime import device as device_named
from assay.speech.file_names import MOONSHINE_TOKENIZER
from assay.speech.log_mel import RATE
from assay.speech.moonshine.model import Moonshine
from assay.speech.sound_files import Recording, read_sound
from assay.speech.transcript import Progress as Heard, Segment, Transcript
from assay.speech.vad_filter import VadFilter, VadOptions
from assay.speech.voice_activity import Segment as Speech, VoiceActivity
from assay.speech.whisper.languages import LANGUAGES, language_code
from assay.speech.whisper.layers import COMPUTE_TYPES
from assay.speech.whisper.loading import WhisperModel, open_files
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions, Transcriber

MOONSHINE: Final = "moonshine-tiny"
MODELS: Final = ("whisper-tiny.en", "whisper-base.en", "whisper-tiny", MOONSHINE)
DEFAULT_MODEL: Final = MODELS[0]
_BEAMS: Final = 5
"""Of faster-whisper and openai/whisper."""


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


class SpeechToText(Protocol):
    """What transcribes samples of 16 kHz."""

    def transcribe(self, samples: Any, progress: Heard | None = None) -> Transcript:
        """The text of samples."""

    def stream(self, samples: Any) -> Iterator[Segment]:
        """The segments of samples, as they are heard."""


def beams_of(model: str) -> int:
    """Beams of a search where none are asked for; Moonshine's is greedy."""
    return 1 if _is_moonshine(model) else _BEAMS


class SpeechModel:
    """A model of speech in device memory, known by name or path."""

    def __init__(
        self, model: str, compute_type: str = COMPUTE_TYPES[0], device: str = "cpu"
    ) -> None:
        """Load it onto a device, with weights as they are stored or quantized to int8."""
        path = _path(model)
        self._opened: Moonshine | WhisperModel
        if not _is_moonshine(model):
            self._opened = WhisperModel(open_files(path), device, compute_type)
            return
        if compute_type != COMPUTE_TYPES[0]:
            raise InputError(
                f"compute_type: expected {COMPUTE_TYPES[0]} for {MOONSHINE}, got {compute_type}",
                "its files are of 8 bits already",
            )
        if device_named(device).capabilities.is_gpu:
            raise InputError(
                f"device: expected cpu for {MOONSHINE}, got {device}", "a GPU runs Whisper"
            )
        self._opened = Moonshine(path)

    def transcriber(self, options: TranscribeOptions) -> SpeechToText:
        """What transcribes with these options; Moonshine takes a few of them only."""
        if isinstance(self._opened, WhisperModel):
            return Transcriber(self._opened, options)
        for name, is_given in (
            ("language", options.language not in (None, "en")),
            ("task", options.task != "transcribe"),
            ("word_times", options.word_times),
            ("prompt", options.prompt is not None),
            ("beam_size", options.search.beam_size != 1),
            ("temperature", options.temperatures[0] != 0),
        ):
            if is_given:
                raise InputError(
                    f"{name}: expected none for {MOONSHINE}, which writes English down, greedily",
                    f"a model of Whisper has it, such as {DEFAULT_MODEL}",
                )
        return self._opened


def _is_moonshine(model: str) -> bool:
    return model == MOONSHINE or (Path(model) / MOONSHINE_TOKENIZER).is_file()


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


def limit_threads(threads: int) -> None:
    """Kernels of this process use so many threads."""
    if threads < 1:
        raise InputError(f"threads: expected 1 or more, got {threads}")
    limit_kernel_threads(threads)


def transcribe(
    source: str | Path | bytes,
    model: str = DEFAULT_MODEL,
    *,
    language: str | None = None,
    task: str = "transcribe",
    beam_size: int | None = None,
    word_times: bool = False,
    timestamps: bool = True,
    prompt: str | None = None,
    temperature: float | None = None,
    compute_type: str = COMPUTE_TYPES[0],
    vad: bool | VadOptions = False,
    threads: int | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> TranscribeAnswer:
    """The text of a recording: WAV or FLAC as a path or bytes, or a file that ffmpeg reads.

    `language` is a code or a name; without it the first 30 seconds tell. The task `translate`
    gives English text. Whisper searches with 5 beams if not told; 1 is greedy. With `vad`, silence
    is cut out before and times are those of the whole recording, as in faster-whisper's VAD filter
    (`assay pull silero-vad`). Without a `temperature`, higher ones are tried where the text is
    repetitive or unlikely. The compute type `int8` quantizes Whisper's weights when they are loaded.
    On a GPU, Whisper computes in half precision.
    """
    device_named(device)
    beam_size = beams_of(model) if beam_size is None else beam_size
    if not 1 <= beam_size <= 16:
        raise InputError(f"beam_size: expected 1 to 16, got {beam_size}")
    if temperature is not None and not 0 <= temperature <= 1:
        raise InputError(f"temperature: expected 0 to 1, got {temperature}")
    if threads is not None:
        limit_threads(threads)
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
    transcriber = SpeechModel(model, compute_type, device).transcriber(options)

    def report(done: float, seconds: float) -> None:
        progress(f"{done:.0f} of {seconds:.0f} seconds transcribed")

    if detector is None:
        speech = None
        transcript = transcriber.transcribe(recording.samples, report)
    else:
        settings = vad if isinstance(vad, VadOptions) else VadOptions()
        kept = VadFilter.of(recording.samples, detector, settings)
        speech = kept.parts
        transcript = kept.restored(transcriber.transcribe(kept.samples, report), recording.seconds)
    notes = []
    if language is None and transcript.language_probability < 1:
        heard = LANGUAGES[transcript.language]
        notes.append(
            f"language: {heard}, with a probability of {transcript.language_probability:.2f}, "
            "from the first 30 seconds"
        )
    if not transcript.segments:
        notes.append("no speech was heard")
    elif recording.is_silent:
        cancel = ", or its channels cancel each other" if recording.channels > 1 else ""
        notes.append(f"the recording is silent{cancel}: models make up text of silence")
    return TranscribeAnswer(
        model=model,
        recording=recording,
        transcript=transcript,
        task=task,
        speech=speech,
        notes=notes,
    )
