"""Moonshine's layers against plain loops in double precision, on random weights of 8 bits."""

import functools
import zlib
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from assay.runtime import Device, transfer
from assay.speech.moonshine.decoder import Decoder
from assay.speech.moonshine.encoder import Encoder
from assay.speech.moonshine.files import MoonshineFile, QuantizedMatrix
from assay.speech.moonshine.layers import (
    HEAD_DIM,
    HEADS,
    LAYERS,
    eight_bits,
    wider_inputs,
    wider_outputs,
)

Floats = npt.NDArray[np.float64]

WIDTH = HEADS * HEAD_DIM
INNER = 4 * WIDTH
VOCABULARY = 64
OUTPUTS = {"fc1": INNER, "up_proj": 2 * INNER}
INPUTS = {"fc2": INNER, "down_proj": INNER}
KERNELS = {"conv1": (288, 1, 127), "conv2": (576, 288, 7), "conv3": (288, 576, 3)}


class RandomFile:
    """Weights drawn by the names that are asked for."""

    def _numbers(self, name: str) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(name.encode()))

    def matrix(self, name: str) -> QuantizedMatrix:
        part = name.split(".")[-1]
        shape = (OUTPUTS.get(part, WIDTH), INPUTS.get(part, WIDTH))
        integers = self._numbers(name).normal(0, 30, shape).round().clip(-120, 120)
        integers[3, 5] = 135
        return QuantizedMatrix(integers.astype(np.int16), 0.0015)

    def quantized(self, name: str, *, transposed: bool) -> QuantizedMatrix:
        integers = self._numbers(name).integers(-127, 128, (VOCABULARY, WIDTH))
        return QuantizedMatrix(integers.astype(np.int16), 0.01)

    def vector(self, name: str) -> npt.NDArray[np.float32]:
        part = name.split(".")[-2] if name.endswith("bias") else ""
        size = KERNELS[part][0] if part in KERNELS else OUTPUTS.get(part, WIDTH)
        center = 0.0 if name.endswith("bias") or "Add" in name else 1.0
        return self._numbers(name).normal(center, 0.1, size).astype(np.float32)

    def convolution(self, name: str) -> npt.NDArray[np.float32]:
        shape = KERNELS[name]
        fan = shape[1] * shape[2]
        return self._numbers(name).normal(0, fan**-0.5, shape).astype(np.float32)


FILE = RandomFile()


@functools.cache
def weights(name: str) -> Floats:
    matrix = FILE.matrix(name)
    return matrix.integers.astype(np.float64) * matrix.scale


def norm(x: Floats, name: str) -> Floats:
    centered = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return centered / deviation * FILE.vector(f"{name}.weight")


def turned(x: Floats, first: int) -> Floats:
    """Heads of rows; the pair 2 i as a complex number, times exp(i position 10000^(-2 i / 32))."""
    pairs = x[..., 0:32:2] + 1j * x[..., 1:32:2]
    angles = np.arange(first, first + len(x))[:, None] * 10_000.0 ** (-np.arange(0, 32, 2) / 32)
    pairs = pairs * np.exp(1j * angles)[:, None]
    out = x.copy()
    out[..., 0:32:2], out[..., 1:32:2] = pairs.real, pairs.imag
    return out


def heads(x: Floats, name: str) -> Floats:
    return (x @ weights(name).T).reshape(len(x), HEADS, HEAD_DIM)


def attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    scores = np.einsum("qhd,khd->hqk", query, keys) / 6
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", shares, values).reshape(len(query), -1)


def error_of(got: npt.NDArray[np.float32], expected: Floats) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def gelu(x: Floats) -> Floats:
    special = pytest.importorskip("scipy.special")
    return cast("Floats", x * (1 + special.erf(x / 2**0.5)) / 2)


def test_weights_of_eight_bits_are_kept_and_those_of_nine_lose_one() -> None:
    integers = np.array([[127, -127, 3], [135, -1, 4], [-255, 255, 0]], np.int16)
    codes, scales = eight_bits(integers, 0.5)
    assert codes.tolist() == [[127, -127, 3], [68, 0, 2], [-127, 127, 0]]
    assert scales.tolist() == [0.5, 1.0, 1.0]


def test_heads_are_padded_with_zeros() -> None:
    integers = np.arange(WIDTH * 2, dtype=np.int16).reshape(WIDTH, 2)
    wider = wider_outputs(integers, 48).reshape(HEADS, 48, 2)
    assert (wider[:, :HEAD_DIM] == integers.reshape(HEADS, HEAD_DIM, 2)).all()
    assert not wider[:, HEAD_DIM:].any()
    assert (wider_inputs(np.ascontiguousarray(integers.T), 48) == wider.reshape(-1, 2).T).all()


def test_encoder_is_that_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(cast("MoonshineFile", FILE), Device("cpu"))
    samples = np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    before: dict[str, Any] = {}

    def seen(x: Any, positions: Any, table: Any, label: str) -> Any:
        before.setdefault("states", x.to_numpy().astype(np.float64))
        return layers[int(label.split(".")[1])].forward(x, positions, table, label)

    class Watched:
        forward = staticmethod(seen)

    layers = encoder._layers
    monkeypatch.setattr(encoder, "_layers", (Watched(),) * LAYERS)
    got = encoder.forward(samples).to_numpy()
    x = before["states"]
    # 127 samples each 64, then 7 each 3, then 3 each 2.
    assert x.shape == (((24_000 - 127) // 64 + 1 - 7) // 3 // 2, WIDTH)
    for index in range(LAYERS):
        name = f"layers.{index}"
        inner = norm(x, f"{name}.input_layernorm")
        query, key, value = (heads(inner, f"{name}.self_attn.{part}_proj") for part in "qkv")
        attended = attend(turned(query, 0), turned(key, 0), value)
        x = x + attended @ weights(f"{name}.self_attn.dense").T
        inner = norm(x, f"{name}.post_attention_layernorm")
        inner = gelu(inner @ weights(f"{name}.mlp.fc1").T + FILE.vector(f"{name}.mlp.fc1.bias"))
        x = x + inner @ weights(f"{name}.mlp.fc2").T + FILE.vector(f"{name}.mlp.fc2.bias")
    assert error_of(got, norm(x, "layer_norm")) < 0.02


def test_decoder_is_that_of_the_definition() -> None:
    decoder = Decoder(cast("MoonshineFile", FILE), Device("cpu"))
    numbers = np.random.default_rng(1)
    tokens = [5, 60, 7, 7]
    table = FILE.quantized("model.decoder.embed_tokens.weight", transposed=True)
    embedding = table.integers.astype(np.float64) * table.scale
    # A second text in the same memory, which is longer than the first.
    for rows in (40, 90):
        states = numbers.standard_normal((rows, WIDTH))
        stored = transfer.store("states", decoder.device, states.astype(np.float32))
        text = decoder.begin(stored, 20)
        got = np.array([text.write(token).copy() for token in tokens])
        assert error_of(got, decoded(embedding, tokens, states)) < 0.02


def decoded(embedding: Floats, tokens: list[int], states: Floats) -> Floats:
    """Logits after each token, one row after the other."""
    keys: list[list[Floats]] = [[] for _ in range(LAYERS)]
    values: list[list[Floats]] = [[] for _ in range(LAYERS)]
    logits = []
    for at, token in enumerate(tokens):
        x = embedding[[token]]
        for index in range(LAYERS):
            name = f"model.decoder.layers.{index}"
            inner = norm(x, f"{name}.input_layernorm")
            query, key, value = (heads(inner, f"{name}.self_attn.{part}_proj") for part in "qkv")
            keys[index].append(turned(key, at))
            values[index].append(value)
            own = np.concatenate(keys[index]), np.concatenate(values[index])
            x = x + attend(turned(query, at), *own) @ weights(f"{name}.self_attn.dense").T
            cross = f"{name}.encoder_attn"
            query = heads(norm(x, f"{name}.post_attention_layernorm"), f"{cross}.q_proj")
            of_audio = heads(states, f"{cross}.k_proj"), heads(states, f"{cross}.v_proj")
            x = x + attend(query, *of_audio) @ weights(f"{cross}.dense").T
            inner = norm(x, f"{name}.final_layernorm") @ weights(f"{name}.mlp.up_proj").T
            up, gate = np.split(inner + FILE.vector(f"{name}.mlp.up_proj.bias"), 2, axis=1)
            x = x + (gate / (1 + np.exp(-gate)) * up) @ weights(f"{name}.mlp.down_proj").T
            x = x + FILE.vector(f"{name}.mlp.down_proj.bias")
        logits.append(norm(x, "model.decoder.norm")[0] @ embedding.T)
    return np.array(logits)
