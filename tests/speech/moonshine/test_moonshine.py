"""Moonshine: cutting, its tokens, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from assay import transcribe
from assay.engine.core.transcription import SpeechModel
from assay.engine.loading import sources
from assay.errors import InputError
from assay.speech.moonshine import model as moonshine
from assay.speech.moonshine.model import pieces, read_tokens
from assay.speech.whisper.transcribing import TranscribeOptions


def test_long_recordings_are_cut_where_they_are_quiet() -> None:
    samples = np.ones(70 * 16_000, np.float32)
    samples[27 * 16_000 : 27 * 16_000 + 1_600] = 0.0
    cut = list(pieces(samples))
    assert cut[0] == (0, 27 * 16_000 + 800)
    assert [start for start, _ in cut[1:]] == [end for _, end in cut[:-1]]
    assert cut[-1][1] == len(samples)
    assert max(end - start for start, end in cut) <= 30 * 16_000
    assert list(pieces(samples[:10])) == [(0, 10)]
    assert list(pieces(samples[:0])) == []


def test_tokens_have_lengths_of_one_or_two_bytes(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.bin"
    long = bytes(range(200))
    path.write_bytes(b"\x03abc" + bytes([200, 1]) + long + b"\x00")
    assert read_tokens(path) == [b"abc", long, b""]
    path.write_bytes(b"\x09abc")
    with pytest.raises(InputError, match="expected 9 bytes of token 0, got fewer"):
        read_tokens(path)


@pytest.mark.parametrize(
    "options", [{"language": "de"}, {"task": "translate"}, {"word_times": True}, {"prompt": "x"}]
)
def test_what_it_does_not_have_is_refused(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.bin").write_bytes(b"")
    monkeypatch.setattr(moonshine.Moonshine, "__init__", lambda self, folder: None)
    opened = SpeechModel(str(tmp_path))
    name = next(iter(options))
    with pytest.raises(InputError, match=f"{name}: expected none for moonshine-tiny"):
        opened.transcriber(TranscribeOptions(**options))


@pytest.mark.slow
def test_tokens_are_those_of_onnxruntime(
    machine_scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(machine_scratch))
    recording = machine_scratch / "recordings" / "beckett.wav"
    if not recording.exists() or not sources.is_pulled("moonshine-tiny"):
        pytest.skip("needs: assay pull moonshine-tiny, and the recording of another test")
    answer = transcribe(recording, "moonshine-tiny")
    [segment] = answer.segments
    # onnxruntime 1.31.1, greedily.
    assert list(segment.tokens) == [
        *(18274, 1898, 29892, 3926, 5229, 29892, 694, 4383, 1018, 1449, 29892, 4418, 1449, 29892),
        *(4418, 2253, 29889),
    ]
    assert segment.text == " Ever tried, ever failed, no matter try again, fail again, fail better."
