"""`assay talk` from its start to its end: a real language model of random weights, fake ears and voice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assay.cli.app import run
from assay.speech.voice_activity import SAMPLE_RATE
from assay.speech.wav import pcm16, wav_header
from assay.talking import stages


class Loudness:
    """Takes what is loud for speech."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def push(self, chunk: Any) -> list[float]:
        return [float(np.abs(chunk).max() > 0.1)]


class Speaker:
    """Says a tenth of a second for each piece of text."""

    def __init__(self, folder: Path, device: object) -> None: ...

    def stream(self, text: str, voice: str, *, speed: float = 1.0) -> Iterator[Any]:
        yield SimpleNamespace(text=text, waveform=np.full(2_400, 0.5, np.float32))


@pytest.fixture
def question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recording of half a second; those who hear and speak stand ready."""
    heard = SimpleNamespace(transcribe=lambda samples: SimpleNamespace(text="Who are you?"))
    opened = SimpleNamespace(transcriber=lambda options: heard)
    monkeypatch.setattr(stages, "voice_activity", Loudness)
    monkeypatch.setattr(stages, "SpeechModel", lambda name: opened)
    monkeypatch.setattr(stages, "speech_folder", lambda name: Path())
    monkeypatch.setattr(stages, "Speaker", Speaker)
    samples = pcm16(np.full(SAMPLE_RATE // 2, 0.5, np.float32))
    path = tmp_path / "question.wav"
    path.write_bytes(wav_header(SAMPLE_RATE, len(samples)) + samples)
    return str(path)


def test_a_question_is_heard_thought_over_and_answered(
    question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer.wav"
    words = ("talk", question, "-o", str(answer), "--model", "synthetic", "--max-tokens", "8")
    assert run((*words, "--no-realtime", "--json")) == 0
    data = json.loads(capsys.readouterr().out)
    [turn] = data["turns"]
    assert turn["heard"] == "Who are you?"
    assert data["path"] == str(answer)
    assert answer.read_bytes()[:4] == b"RIFF"
    # Each stage was admitted to the device with its share, and its thread has ended.
    shares = [(stage["name"], stage["share"], stage["guaranteed"]) for stage in data["stages"]]
    assert shares == [("hearing", 10, False), ("thinking", 10, False), ("speaking", 80, True)]
    names = {thread.name for thread in threading.enumerate()}
    assert not names & {"assay-hearing", "assay-speaking", "assay-engine"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "nonesuch"), "nonesuch"),
        (("--voice", "nobody"), "nobody"),
        (("--device", "cuda:0"), "device: expected cpu for speech, got cuda:0"),
        (("--silence", "0"), "silence: expected at least"),
    ],
)
def test_what_cannot_start_is_one_line(
    question: str, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(("talk", question, "--no-realtime", *words)) == 2
    errors = capsys.readouterr().err.splitlines()
    [line] = [line for line in errors if line.startswith("error:")]
    assert message in line
