"""/v1/audio/speech: text to speech, streamed sentence by sentence.

Bodies are OpenAI's. The model is opened on the first request, where `assay pull kokoro` has
downloaded it; requests are said one after the other.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from assay.engine.loading.speech_files import speech_folder
from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import Strict, Text
from assay.errors import AssayError
from assay.speech.kokoro.voice_names import VOICES

if TYPE_CHECKING:
    from assay.speech.kokoro.speaker import Speaker

MODEL: Final = "kokoro"
_MEDIA_TYPES: Final = {"wav": "audio/wav", "pcm": "audio/pcm"}


class SpeechRequest(Strict):
    """The body of /v1/audio/speech."""

    model: Text
    input: Annotated[Text, Field(min_length=1, max_length=4096)]
    voice: Text
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = None
    speed: Annotated[float, Field(ge=0.25, le=4, allow_inf_nan=False)] | None = None
    stream_format: Literal["audio", "sse"] | None = None
    instructions: Text | None = None


class _Voice:
    """The model, opened once; one request at a time has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._speaker: Speaker | None = None

    def stream(self, body: SpeechRequest, voice: str, format: str) -> Iterator[bytes]:
        """The bytes of a response, a sentence at a time."""
        from assay.speech.kokoro.harmonics import SAMPLE_RATE
        from assay.speech.kokoro.speaker import Speaker
        from assay.speech.wav import pcm16, wav_header

        with self._lock:
            if self._speaker is None:
                self._speaker = Speaker(speech_folder(MODEL))
            try:
                self._speaker.check_words(body.input, voice, name="input")
            except AssayError as error:
                raise ApiError(error.message, param="input") from None
            if format == "wav":
                yield wav_header(SAMPLE_RATE, None)
            for sentence in self._speaker.stream(body.input, voice, speed=body.speed or 1.0):
                if sentence.seconds:
                    yield pcm16(sentence.waveform)


def _events(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of a response as events, in base64."""
    for part in parts:
        delta = {"type": "speech.audio.delta", "audio": base64.b64encode(part).decode()}
        yield f"data: {json.dumps(delta)}\n\n".encode()
    yield b'data: {"type": "speech.audio.done"}\n\n'


def add_speech_routes(app: FastAPI, error_responses: dict[int | str, dict[str, Any]]) -> None:
    """Add the endpoint of speech."""
    opened = _Voice()

    @app.post(
        "/v1/audio/speech",
        response_class=Response,
        responses={200: {"content": {"audio/wav": {}, "audio/pcm": {}}}, **error_responses},
    )
    async def speech(body: SpeechRequest) -> StreamingResponse:
        """Say a text."""
        format = _format(body)
        voice = _voice(body)
        # The first bytes are waited for: what cannot be said is refused with a status.
        parts = opened.stream(body, voice, format)
        media_type = _MEDIA_TYPES[format]
        if body.stream_format == "sse":
            parts, media_type = _events(parts), "text/event-stream"
        first = await asyncio.to_thread(next, parts, b"")
        return StreamingResponse(_streamed(first, parts), media_type=media_type)


async def _streamed(first: bytes, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part


def _format(body: SpeechRequest) -> str:
    if body.model != MODEL:
        raise ApiError(
            f'the model "{body.model}" does not speak here; "{MODEL}" does',
            status=404,
            param="model",
            code="model_not_found",
        )
    if body.instructions is not None:
        raise ApiError(
            f"instructions: expected none, which {MODEL} does not have", param="instructions"
        )
    # OpenAI's default is mp3: a client that names no format gets one that it can tell apart.
    format = body.response_format or "wav"
    if format not in _MEDIA_TYPES:
        raise ApiError(
            f'response_format: expected one of {", ".join(_MEDIA_TYPES)}, got "{format}"',
            param="response_format",
        )
    return format


def _voice(body: SpeechRequest) -> str:
    """The voice by its name; "alloy" stands for the first voice whose name ends so."""
    from assay.speech.kokoro.speaker import check_request

    ending = [voice for voice in VOICES if voice.partition("_")[2] == body.voice]
    voice = ending[0] if ending else body.voice
    try:
        check_request(body.input, voice, body.speed or 1.0)
    except AssayError as error:
        raise ApiError(error.message, param="voice") from None
    return voice
