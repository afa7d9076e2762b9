"""Silero VAD against its definition in double precision, with random weights; and rules of segments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError
from assay.speech import voice_activity
from assay.speech.file_names import SILERO_VAD
from assay.speech.voice_activity import CHUNK, Segment, VoiceActivity, speech_segments

RNG = np.random.default_rng(4)


def varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_file(path: Path, weights: dict[str, np.ndarray]) -> Path:
    """A model of initializers alone (ModelProto 7: graph, GraphProto 5: initializer)."""
    tensors = b""
    for name, values in weights.items():
        extents = b"".join(varint(1 << 3) + varint(extent) for extent in values.shape)
        kind = varint(2 << 3) + varint(1)
        tensors += field(5, extents + kind + field(8, name.encode()) + field(9, values.tobytes()))
    path.write_bytes(field(7, tensors))
    return path


def random_weights() -> dict[str, np.ndarray]:
    return {
        name: (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in voice_activity._SHAPES.items()
    }


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def convolved(x: np.ndarray, weight: np.ndarray, stride: int, padding: int) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (padding, padding)))
    at = np.arange(0, padded.shape[1] - weight.shape[2] + 1, stride)[:, None] + np.arange(
        weight.shape[2]
    )
    return np.einsum("ctk,fck->ft", padded[:, at], weight)


def reference(signal: np.ndarray, given: dict[str, np.ndarray]) -> list[float]:
    weights = {name.split("model.")[1]: values.astype(float) for name, values in given.items()}
    h = c = np.zeros(128)
    context, found = np.zeros(64), []
    for chunk in signal.astype(float).reshape(-1, CHUNK):
        x = np.pad(np.concatenate([context, chunk]), (0, 64), "reflect")
        context = chunk[-64:]
        parts = convolved(x[None], weights["stft.forward_basis_buffer"], 128, 0)
        x = np.hypot(parts[:129], parts[129:])
        for layer, stride in enumerate((1, 2, 2, 1)):
            name = f"encoder.{layer}.reparam_conv"
            x = (
                convolved(x, weights[f"{name}.weight"], stride, 1)
                + weights[f"{name}.bias"][:, None]
            )
            x = np.maximum(x, 0)
        gates = weights["decoder.rnn.weight_ih"] @ x[:, 0] + weights["decoder.rnn.weight_hh"] @ h
        gates += weights["decoder.rnn.bias_ih"] + weights["decoder.rnn.bias_hh"]
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        logit = weights["decoder.decoder.2.weight"][0, :, 0] @ np.maximum(h, 0)
        found.append(float(sigmoid(logit + weights["decoder.decoder.2.bias"][0])))
    return found


def test_probabilities_follow_the_definition_in_any_chunks(tmp_path: Path) -> None:
    weights = random_weights()
    onnx_file(tmp_path / SILERO_VAD, weights)
    detector = VoiceActivity(tmp_path)
    signal = RNG.standard_normal(9 * CHUNK).astype(np.float32)
    expected = reference(signal, weights)
    assert np.abs(detector.probabilities(signal) - expected).max() < 2e-6
    parts = [detector.push(part) for part in np.split(signal, [100, 1200, 1201, 3000])]
    assert [len(part) for part in parts] == [0, 2, 0, 3, 4]
    assert np.abs(np.concatenate(parts) - expected).max() < 2e-6
    # The last chunk is filled up with zeros, and a recording does not depend on what came before.
    short = detector.probabilities(signal[: 3 * CHUNK - 100])
    assert len(short) == 3
    assert np.abs(short[:2] - expected[:2]).max() < 2e-6
    assert detector.probabilities(signal[:0]).shape == (0,)


def test_other_weights_and_channels_are_named(tmp_path: Path) -> None:
    weights = random_weights()
    path = onnx_file(
        tmp_path / "other.onnx", {**weights, "model.decoder.rnn.bias_ih": np.zeros(3, "f4")}
    )
    with pytest.raises(InputError, match=r"model\.decoder\.rnn\.bias_ih as f32 of \(512,\)"):
        VoiceActivity(path)
    detector = VoiceActivity(onnx_file(path, weights))
    with pytest.raises(InputError, match="one channel"):
        detector.push(np.zeros((2, 600), np.float32))


def chunks(*runs: tuple[float, int]) -> np.ndarray:
    return np.concatenate([np.full(count, value, np.float32) for value, count in runs])


@pytest.mark.parametrize(
    ("runs", "options", "expected"),
    [
        ([(0.1, 40)], {}, []),
        # 30 chunks of speech, 480 samples of padding on both sides.
        ([(0.1, 10), (0.9, 30), (0.1, 20)], {}, [(10 * 512 - 480, 40 * 512 + 480)]),
        # Two chunks are 64 ms: shorter than a quarter of a second.
        ([(0.1, 10), (0.9, 2), (0.1, 20)], {}, []),
        # A pause of two chunks does not end speech, nor does a probability between both thresholds.
        ([(0.9, 20), (0.1, 2), (0.9, 20)], {}, [(0, 42 * 512)]),
        ([(0.9, 20), (0.4, 20), (0.9, 5)], {}, [(0, 45 * 512)]),
        # A pause of five: both grow to its middle where the padding is as long.
        ([(0.9, 20), (0.1, 5), (0.9, 20)], {"padding": 1.0}, [(0, 22 * 512 + 256), (22 * 512 + 256, 45 * 512)]),
        ([(0.9, 50)], {"most_speech": 0.64, "padding": 0.0}, [(0, 10240), (10240, 20480), (20480, 25600)]),
    ],
)  # fmt: skip
def test_segments_of_probabilities(
    runs: list[tuple[float, int]], options: dict[str, float], expected: list[tuple[int, int]]
) -> None:
    probabilities = chunks(*runs)
    found = speech_segments(probabilities, len(probabilities) * CHUNK, **options)
    assert found == [Segment(*pair) for pair in expected]


def test_the_last_segment_ends_with_the_recording() -> None:
    assert speech_segments(chunks((0.9, 20)), 20 * CHUNK - 300) == [Segment(0, 20 * CHUNK - 300)]
