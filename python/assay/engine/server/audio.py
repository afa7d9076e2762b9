"""/v1/audio/transcriptions and /v1/audio/translations: the text of a recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from assay.engine.core.transcription import (
    SpeechModel,
    SpeechToText,
    beams_of,
    segment_data,
    voice_activity,
)
from assay.engine.server.errors import ApiError
from assay.engine.server.multipart import FormField, read_form
from assay.errors import AssayError, InputError
from assay.speech import subtitles
from assay.speech.log_mel import RATE
from assay.speech.sound_files import read_sound
from assay.speech.transcript import Segment, Transcript
from assay.speech.vad_filter import VadFilter, VadOptions
from assay.speech.voice_activity import VoiceActivity
from assay.speech.whisper.languages import LANGUAGES, language_code
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions

BODY_BYTES: Final = 25 << 20
"""Bytes of a recording at most, as at OpenAI."""
PATHS: Final = ("/v1/audio/transcriptions", "/v1/audio/translations")
_FORMATS: Final = ("json", "text", "srt", "verbose_json", "vtt")
_FIELDS: Final = frozenset(
    (
        *("file", "model", "language", "prompt", "response_format", "temperature"),
        *("timestamp_granularities[]", "timestamp_granularities", "stream", "include[]"),
        *("chunking_strategy", "beam_size"),
    )
)


class Transcriptions:
    """A model of speech and the requests to it, one after the other."""

    def __init__(self, name: str) -> None:
        """Serve the model of this name or path; it is loaded when the first request comes."""
        self.name: Final = name
        self._lock = asyncio.Lock()
        self._model: SpeechModel | None = None
        self._detector: VoiceActivity | None = None

    async def run(self, recording: bytes, options: TranscribeOptions, *, vad: bool) -> Transcript:
        """The text of a recording."""
        async with self._lock:
            return await asyncio.to_thread(self._transcribe, recording, options, vad)

    async def stream(
        self, recording: bytes, options: TranscribeOptions, *, vad: bool
    ) -> AsyncIterator[Segment]:
        """The segments of a recording, as they are heard."""
        async with self._lock:
            segments = await asyncio.to_thread(self._segments, recording, options, vad)
            while (segment := await asyncio.to_thread(next, segments, None)) is not None:
                yield segment

    def _transcribe(self, recording: bytes, options: TranscribeOptions, vad: bool) -> Transcript:
        samples, transcriber = self._opened(recording, options)
        if not vad:
            return transcriber.transcribe(samples)
        kept = self._without_silence(samples)
        return kept.restored(transcriber.transcribe(kept.samples), samples.size / RATE)

    def _segments(
        self, recording: bytes, options: TranscribeOptions, vad: bool
    ) -> Iterator[Segment]:
        samples, transcriber = self._opened(recording, options)
        if not vad:
            return transcriber.stream(samples)
        kept = self._without_silence(samples)
        return map(kept.segment, transcriber.stream(kept.samples))

    def _opened(self, recording: bytes, options: TranscribeOptions) -> tuple[Any, SpeechToText]:
        try:
            samples = read_sound(recording, RATE).samples
        except AssayError as error:
            raise ApiError(f"file: {_with_hint(error)}", param="file") from None
        if self._model is None:
            self._model = SpeechModel(self.name)
        try:
            return samples, self._model.transcriber(options)
        except InputError as error:
            raise _refused(error) from None

    def _without_silence(self, samples: Any) -> VadFilter:
        if self._detector is None:
            self._detector = voice_activity()
        return VadFilter.of(samples, self._detector, VadOptions())


def add_audio_routes(app: FastAPI, model: str, responses: dict[int | str, dict[str, Any]]) -> None:
    """Serve transcriptions and translations by a model."""
    transcriptions = Transcriptions(model)

    @app.post("/v1/audio/transcriptions", responses=responses)
    async def transcribe(request: Request) -> Response:
        """Write down what a recording says."""
        return await _respond(transcriptions, request, "transcribe")

    @app.post("/v1/audio/translations", responses=responses)
    async def translate(request: Request) -> Response:
        """Write down in English what a recording says."""
        return await _respond(transcriptions, request, "translate")


async def _respond(transcriptions: Transcriptions, request: Request, task: str) -> Response:
    form = read_form(request.headers.get("content-type", ""), await request.body())
    unknown = [field.name for field in form if field.name not in _FIELDS]
    if unknown:
        raise ApiError(f"{unknown[0]:.40}: unknown field", param=unknown[0][:40])
    fields = {field.name: field for field in form}
    named = _text(fields, "model")
    if named not in (None, transcriptions.name, "whisper-1"):
        raise ApiError(
            f"model: expected {transcriptions.name}, got {named:.80}",
            status=404,
            param="model",
            code="model_not_found",
        )
    if "file" not in fields:
        raise ApiError("file: expected a recording, got none", param="file")
    format = _text(fields, "response_format") or "json"
    if format not in _FORMATS:
        raise ApiError(
            f"response_format: expected one of {', '.join(_FORMATS)}, got {format:.40}",
            param="response_format",
        )
    options = _options(form, fields, task, transcriptions.name)
    recording, vad = fields["file"].content, _cuts_silence(fields)
    if _text(fields, "stream") in ("true", "True", "1"):
        segments = transcriptions.stream(recording, options, vad=vad)
        # The first segment is waited for: what cannot be heard is refused with a status.
        first = await anext(segments, None)
        return StreamingResponse(_events(first, segments), media_type="text/event-stream")
    transcript = await transcriptions.run(recording, options, vad=vad)
    return _response(transcript, format, task, options.word_times)


def _options(
    form: Sequence[FormField], fields: Mapping[str, FormField], task: str, model: str
) -> TranscribeOptions:
    language = _text(fields, "language")
    temperature = _number(fields, "temperature", 0.0, 1.0)
    beam_size = _number(fields, "beam_size", 1.0, 16.0)
    granularities = {
        field.text for field in form if field.name.startswith("timestamp_granularities")
    }
    if not granularities <= {"word", "segment"}:
        raise ApiError(
            "timestamp_granularities: expected word and segment, got another",
            param="timestamp_granularities",
        )
    try:
        code = None if language is None or task == "translate" else language_code(language)
    except AssayError as error:
        raise ApiError(error.message, param="language") from None
    chosen = {} if not temperature else {"temperatures": (temperature,)}
    return TranscribeOptions(
        language=code,
        task=task,
        search=SearchOptions(beam_size=int(beam_size or beams_of(model))),
        prompt=_text(fields, "prompt"),
        word_times="word" in granularities,
        **chosen,  # type: ignore[arg-type]
    )


def _text(fields: Mapping[str, FormField], name: str) -> str | None:
    return fields[name].text.strip() or None if name in fields else None


def _number(fields: Mapping[str, FormField], name: str, least: float, most: float) -> float | None:
    given = _text(fields, name)
    if given is None:
        return None
    try:
        number = float(given)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ApiError(f"{name}: expected {least:g} to {most:g}, got {given:.40}", param=name)
    return number


def _response(transcript: Transcript, format: str, task: str, word_times: bool) -> Response:
    if format == "text":
        return PlainTextResponse(f"{transcript.text}\n")
    if format == "srt":
        return PlainTextResponse(subtitles.srt(transcript.segments))
    if format == "vtt":
        return PlainTextResponse(subtitles.vtt(transcript.segments))
    usage = {"type": "duration", "seconds": round(transcript.seconds)}
    if format == "json":
        return JSONResponse({"text": transcript.text, "usage": usage})
    data: dict[str, Any] = {
        "task": task,
        "language": LANGUAGES[transcript.language],
        "duration": transcript.seconds,
        "text": transcript.text,
        "segments": [
            {"id": number, **_without_words(segment_data(segment))}
            for number, segment in enumerate(transcript.segments)
        ],
        "usage": usage,
    }
    if word_times:
        data["words"] = [
            {"word": word.text.strip(), "start": word.start, "end": word.end}
            for segment in transcript.segments
            for word in segment.words
        ]
    return JSONResponse(data)


def _without_words(data: dict[str, Any]) -> dict[str, Any]:
    # Clients read seek as a whole number of frames.
    return {**{key: data[key] for key in data if key != "words"}, "seek": round(100 * data["seek"])}


def _with_hint(error: AssayError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _refused(error: InputError) -> ApiError:
    """The refusal of an option that the model does not have, by the name of its field."""
    message = _with_hint(error).replace("word_times:", "timestamp_granularities:", 1)
    name = message.replace(":", " ").split(" ", 1)[0]
    # The task is the path: another model has it.
    return ApiError(message, param=name if name in _FIELDS else "model")


def _cuts_silence(fields: Mapping[str, FormField]) -> bool:
    """Whether silence is cut out first: the client chose a strategy, any of which is by voice activity."""
    strategy = _text(fields, "chunking_strategy")
    if strategy is None:
        return False
    if strategy != "auto" and not (strategy.startswith("{") and "server_vad" in strategy):
        raise ApiError(
            f"chunking_strategy: expected auto or server_vad, got {strategy:.40}",
            param="chunking_strategy",
        )
    return True


async def _events(first: Segment | None, segments: AsyncIterator[Segment]) -> AsyncIterator[str]:
    """The segments as they are heard, and the whole text, as events."""
    text = ""
    segment = first
    while segment is not None:
        text += segment.text
        delta = {"type": "transcript.text.delta", "delta": segment.text}
        yield f"data: {json.dumps(delta)}\n\n"
        segment = await anext(segments, None)
    done = {"type": "transcript.text.done", "text": text.strip()}
    yield f"data: {json.dumps(done)}\n\n"
    yield "data: [DONE]\n\n"
