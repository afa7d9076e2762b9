"""A spoken question, answered aloud by the published models."""

from pathlib import Path

import pytest

import assay
from assay.engine.loading import sources
from assay.speech.wav import pcm16, wav_header
from assay.talking.talk import talk


@pytest.mark.slow
def test_a_question_is_answered_aloud(
    machine_scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(machine_scratch))
    models = ("silero-vad", "moonshine-tiny", "whisper-tiny.en", "kokoro", "smollm2")
    if not all(sources.is_pulled(name) for name in models):
        pytest.skip(f"needs: assay pull {' '.join(models)}")
    asked = assay.speak("What is the capital of France?", voice="am_adam")
    question = tmp_path / "question.wav"
    samples = pcm16(asked.waveform)
    question.write_bytes(wav_header(asked.rate, len(samples)) + samples)
    answer = talk(question, tmp_path / "answer.wav", realtime=False)
    [turn] = answer.turns
    assert turn.heard == "What is the capital of France?"
    assert "Paris" in turn.said
    heard = assay.transcribe(tmp_path / "answer.wav", beam_size=1).text
    assert "Paris" in heard
    data = answer.to_json()
    assert data["first_audio"] is None
    assert [stage["name"] for stage in data["stages"]] == ["hearing", "thinking", "speaking"]
    assert all(stage["device_seconds"] > 0 for stage in data["stages"])
