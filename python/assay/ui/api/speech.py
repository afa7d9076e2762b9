"""`/speech`: what is said into the microphone as text, and text as speech, by models of this machine."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Annotated, Final

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from assay.engine.core.transcription import (
    MODELS,
    SpeechModel,
    SpeechToText,
    beams_of,
    segment_data,
)
from assay.engine.loading import sources
from assay.engine.loading.speech_files import speech_folder
from assay.errors import unknown_name
from assay.speech.kokoro.harmonics import SAMPLE_RATE
from assay.speech.kokoro.speaker import Speaker
from assay.speech.kokoro.voice_names import DEFAULT_VOICE, VOICES
from assay.speech.log_mel import RATE
from assay.speech.sound_files import read_sound
from assay.speech.wav import pcm16, wav_header
from assay.speech.whisper.search import SearchOptions
from assay.speech.whisper.transcribing import TranscribeOptions
from assay.ui.api.reports import REFUSALS, send

router = APIRouter(tags=["speech"], responses=REFUSALS)

KOKORO: Final = "kokoro"
_ENGLISH: Final = ("a", "b")
"""First letters of the voices that text can be read with."""
_MOST_CHARACTERS: Final = 1_000
_COMPUTING: Final = threading.Lock()
"""Models take all cores: one request after the other."""

Model = Annotated[str, Query(max_length=100, description="A model that was downloaded.")]
Recording = Annotated[
    bytes, Body(media_type="application/octet-stream", description="A WAV or FLAC file.")
]


class SpeechRequest(BaseModel):
    """A text and who says it."""

    text: str = Field(max_length=_MOST_CHARACTERS)
    voice: str = Field(DEFAULT_VOICE, max_length=100)


@router.get("/speech")
def speech() -> Response:
    """Models that were downloaded, and voices."""
    return send(
        {
            "models": [name for name in MODELS if sources.is_pulled(name)],
            "speaks": sources.is_pulled(KOKORO),
            "voices": [name for name in VOICES if name.startswith(_ENGLISH)],
            "voice": DEFAULT_VOICE,
        }
    )


@router.post("/speech/transcriptions")
def transcriptions(recording: Recording, model: Model = MODELS[0]) -> Response:
    """The text of a recording of up to 1 MiB: what `assay transcribe - --json` prints of its segments."""
    if model not in MODELS:
        raise unknown_name("speech model", model, MODELS)
    samples = read_sound(recording, RATE).samples
    with _COMPUTING:
        heard = _transcriber(model).transcribe(samples)
    return send(
        {
            "text": heard.text,
            "language": heard.language,
            "seconds": heard.seconds,
            "segments": [segment_data(segment) for segment in heard.segments],
        }
    )


@router.post("/speech/waveforms", response_class=Response)
def waveforms(request: SpeechRequest) -> Response:
    """A text as a WAV file: what `assay speak TEXT` writes."""
    with _COMPUTING:
        said = [pcm16(part.waveform) for part in _speaker().stream(request.text, request.voice)]
    content = b"".join(said)
    return Response(wav_header(SAMPLE_RATE, len(content)) + content, media_type="audio/wav")


@lru_cache(maxsize=1)
def _transcriber(model: str) -> SpeechToText:
    options = TranscribeOptions(search=SearchOptions(beam_size=beams_of(model)))
    return SpeechModel(model).transcriber(options)


@lru_cache(maxsize=1)
def _speaker() -> Speaker:
    return Speaker(speech_folder(KOKORO))
