"""Moonshine: the arithmetic of its ONNX files, cutting, its tokens, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from assay import transcribe
from assay.engine.core.transcription import SpeechModel
from assay.engine.loading import sources
from assay.errors import InputError
from assay.runtime import Device
from assay.speech.moonshine import model as moonshine
from assay.speech.moonshine.files import QuantizedMatrix
from assay.speech.moonshine.layers import Linear, attend, attend_one, quantize, rotated, rotations
from assay.speech.moonshine.model import pieces, read_tokens
from assay.speech.whisper.transcribing import TranscribeOptions

RNG = np.random.default_rng(6)


@pytest.mark.parametrize(
    ("values", "integers", "scale", "zero_point"),
    [
        # The examples of DynamicQuantizeLinear in the ONNX specification.
        ([0, 2, -3, -2.5, 1.34, 0.5], [153, 255, 0, 26, 221, 179], 0.0196078438, 153),
        ([-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], [191, 121, 172, 96, 42, 0], 0.0156862754, 255),
        ([1, 2.1, 1.3, 2.5, 3.34, 4.0, 1.5, 2.6, 3.9, 4.0, 3.0, 2.345],
         [64, 134, 83, 159, 213, 255, 96, 166, 249, 255, 191, 149], 0.0156862754, 0),
    ],
)  # fmt: skip
def test_rows_are_quantized_as_onnx_does(
    values: list[float], integers: list[int], scale: float, zero_point: int
) -> None:
    rows = quantize(np.array([values], np.float32))
    assert (rows.integers[0] + zero_point).tolist() == integers
    assert float(rows.scale) == pytest.approx(scale, rel=1e-6)
    assert quantize(np.zeros((1, 3), np.float32)).integers.tolist() == [[0, 0, 0]]


def test_products_are_those_of_the_integers() -> None:
    stored = RNG.integers(0, 256, (48, 16)).astype(np.uint8)
    bias = RNG.standard_normal(16).astype(np.float32)
    parts = [QuantizedMatrix(stored[:, :10], 119, 0.02), QuantizedMatrix(stored[:, 10:], 119, 0.02)]
    layer = Linear(parts, bias, Device("cpu"))
    rows = quantize(RNG.standard_normal((3, 48)).astype(np.float32))
    exact = rows.integers.astype(np.int64) @ (stored.astype(np.int64) - 119)
    expected = exact * (float(rows.scale) * 0.02) + bias
    assert np.abs(layer.forward(rows, "product") - expected).max() < 1e-5 * np.abs(expected).max()


def test_positions_turn_pairs_of_neighbors() -> None:
    x = RNG.standard_normal((4, 8, 36)).astype(np.float32)
    turned = rotated(x, rotations(2, 4))
    # The pair 2 i as a complex number, times exp(i position 10000^(-2 i / 32)).
    pairs = x[..., 0:32:2] + 1j * x[..., 1:32:2]
    angles = np.arange(2, 6)[:, None] * 10_000.0 ** (-np.arange(0, 32, 2) / 32)
    expected = pairs * np.exp(1j * angles)[:, None]
    assert np.abs(turned[..., 0:32:2] - expected.real).max() < 1e-5
    assert np.abs(turned[..., 1:32:2] - expected.imag).max() < 1e-5
    assert (turned[..., 32:] == x[..., 32:]).all()


def test_one_row_attends_as_many_do() -> None:
    query, keys, values = (RNG.standard_normal((7, 8, 36)).astype(np.float32) for _ in range(3))
    many = attend(query, keys, values, Device("cpu"), "many")
    one = attend_one(query[3], keys.transpose(1, 0, 2), values.transpose(1, 0, 2))
    assert np.abs(many[3] - one[0]).max() < 1e-5
    scores = np.einsum("qhd,khd->hqk", query, keys) / 6
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = np.einsum("hqk,khd->qhd", weights, values).reshape(7, -1)
    assert np.abs(many - expected).max() < 1e-5


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
