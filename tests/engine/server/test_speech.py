"""/v1/audio/speech: what is refused, and what is streamed."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from assay.engine.loading import sources
from assay.engine.server import speech
from assay.engine.server.errors import install
from assay.errors import InputError

BODY = {"model": "kokoro", "input": "Hi there. You.", "voice": "af_heart"}


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    install(app)
    speech.add_speech_routes(app, {})
    return TestClient(app, raise_server_exceptions=False)


class FakeSpeaker:
    """Says a constant for each sentence."""

    def __init__(self, folder: Path) -> None: ...

    def check_words(self, text: str, voice: str, *, name: str) -> None:
        if not text.isascii():
            raise InputError(f'{name}: expected words of English, got "{text}"')

    def stream(self, text: str, voice: str, *, speed: float) -> Iterator[Any]:
        for sentence in text.split(". "):
            waveform = np.full(len(sentence), 0.5, np.float32)
            yield SimpleNamespace(waveform=waveform, seconds=len(waveform) / 24_000)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.speech.kokoro.speaker.Speaker", FakeSpeaker)
    monkeypatch.setattr(speech, "speech_folder", lambda name: Path())


@pytest.mark.usefixtures("said")
def test_wav_and_pcm(client: TestClient) -> None:
    wav = client.post("/v1/audio/speech", json=BODY)
    assert (wav.status_code, wav.headers["content-type"]) == (200, "audio/wav")
    assert wav.content[:4] == b"RIFF"
    pcm = client.post("/v1/audio/speech", json=BODY | {"response_format": "pcm", "voice": "sky"})
    assert wav.content[44:] == pcm.content
    assert np.frombuffer(pcm.content, "<i2").tolist() == [16384] * 12


@pytest.mark.usefixtures("said")
def test_events_carry_the_same_bytes(client: TestClient) -> None:
    whole = client.post("/v1/audio/speech", json=BODY | {"response_format": "pcm"}).content
    body = BODY | {"response_format": "pcm", "stream_format": "sse"}
    response = client.post("/v1/audio/speech", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line]
    assert [event["type"] for event in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1)
    assert events[-1] == {"type": "speech.audio.done"}
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == whole


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize("format", ["wav", "pcm"])
def test_text_without_a_word_of_english_is_refused_before_the_header(
    client: TestClient, format: str
) -> None:
    body = BODY | {"input": "\u4f60\u597d", "response_format": format}
    response = client.post("/v1/audio/speech", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "input")
    assert "expected words of English" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"response_format": "mp3"}, 400, 'expected one of wav, pcm, got "mp3"'),
        ({"response_format": "opus"}, 400, 'got "opus"'),
        ({"model": "tts-1"}, 404, '"kokoro" does'),
        ({"voice": "af_hart"}, 400, "af_hart"),
        ({"voice": "zf_xiaoxiao"}, 400, "Mandarin Chinese"),
        ({"speed": 9}, 422, "speed"),
        ({"input": ""}, 422, "input"),
        ({"instructions": "whisper"}, 400, "instructions"),
    ],
)
def test_refusals_name_the_field(
    client: TestClient, change: dict[str, Any], status: int, text: str
) -> None:
    response = client.post("/v1/audio/speech", json=BODY | change)
    assert response.status_code in (status, 400)
    assert text in response.json()["error"]["message"]


def test_model_that_is_not_downloaded(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    assert not sources.is_pulled("kokoro")
    response = client.post("/v1/audio/speech", json=BODY)
    assert response.status_code >= 400
    assert "kokoro" in response.json()["error"]["message"]
