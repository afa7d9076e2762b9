"""The page that speaks and listens: what is installed, texts of recordings, and speech."""

from __future__ import annotations

import io
import wave
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from assay.engine.loading import sources
from assay.speech.transcript import Segment, Transcript
from assay.ui.api import speech
from assay.ui.app import PREFIX, create_app

TOKEN = "a-token-of-the-speech-tests"
CLIENT = TestClient(
    create_app(TOKEN),
    base_url="http://localhost",
    headers={"Authorization": f"Bearer {TOKEN}"},
    raise_server_exceptions=False,
)


def recording(seconds: float = 0.5) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 48_000, 0, "NONE", ""))
        file.writeframes(np.full(int(48_000 * seconds), 1_000, "<i2").tobytes())
    return content.getvalue()


class Hears:
    def transcribe(self, samples: Any) -> Transcript:
        assert samples.shape == (8_000,)
        segment = Segment(0.0, 0.5, " Hello.", (1,), 0.0, -0.1, 1.0, None, 0.0)
        return Transcript((segment,), "en", 1.0, 0.5)


def test_models_that_were_downloaded_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "is_pulled", lambda name: name in ("whisper-base.en", "kokoro"))
    found = CLIENT.get(f"{PREFIX}/speech").json()
    assert found["models"] == ["whisper-base.en"]
    assert found["speaks"] is True
    assert found["voice"] in found["voices"]
    assert {name[0] for name in found["voices"]} == {"a", "b"}


def test_a_recording_becomes_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "_transcriber", lambda model: Hears())
    path = f"{PREFIX}/speech/transcriptions"
    heard = CLIENT.post(path, content=recording(), headers={"Content-Type": "audio/wav"})
    assert heard.status_code == 200
    assert heard.json()["text"].strip() == "Hello."
    assert heard.json()["segments"][0]["end"] == 0.5


@pytest.mark.parametrize(
    ("query", "body", "status", "message"),
    [
        ("", b"RIFF, but no recording", 400, "expected"),
        ("?model=whisper-huge", recording(0.01), 404, 'unknown speech model "whisper-huge"'),
        ("", bytes(2 << 20), 413, ""),
    ],
)
def test_what_is_no_recording_is_refused(
    query: str, body: bytes, status: int, message: str
) -> None:
    path = f"{PREFIX}/speech/transcriptions{query}"
    refused = CLIENT.post(path, content=body, headers={"Content-Type": "audio/wav"})
    assert refused.status_code == status
    assert message in refused.json()["error"]["message"]


def test_a_text_becomes_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [SimpleNamespace(waveform=np.full(240, 0.5, np.float32))] * 2
    speaker = SimpleNamespace(stream=lambda text, voice: said)
    monkeypatch.setattr(speech, "_speaker", lambda: speaker)
    answer = CLIENT.post(f"{PREFIX}/speech/waveforms", json={"text": "Hello. Again."})
    assert answer.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(answer.content)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.getnframes() == 480
    refused = CLIENT.post(f"{PREFIX}/speech/waveforms", json={"text": "a" * 1_001})
    assert refused.status_code == 422
