"""Whisper's encoder and decoder on a GPU in half precision, against single precision on the CPU."""

import numpy as np
import pytest
import whisper_random

from assay import ops, xp
from assay.runtime import Array, Device, cuda, device
from assay.speech.layers import Buffers
from assay.speech.whisper.beam_steps import BeamSteps
from assay.speech.whisper.steps import GraphBeams, GraphDecoder

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu


RANDOM = np.random.default_rng(37)


@pytest.fixture(scope="module")
def gpu() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def read(array: Array) -> np.ndarray:
    return xp.astype(array, xp.float32).to_numpy()


def test_recordings_at_once_in_graphs_as_on_the_cpu(gpu: Device) -> None:
    models = [whisper_random.load(gpu), whisper_random.load(device("cpu"))]
    features = whisper_random.features(5)
    states = [encoder.forward(features) for encoder, _ in models]
    got, expected = (read(one) for one in states)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-2 * np.abs(expected).max())
    decoders = [GraphDecoder(decoder, 5) for _, decoder in models]
    for seed in (1, 2):
        for decoder, heard in zip(decoders, states, strict=True):
            decoder.listen(heard)
        for row in np.random.default_rng(seed).integers(0, 1000, (40, 5)):
            got, expected = (read(decoder.step(row)) for decoder in decoders)
            np.testing.assert_allclose(got, expected, rtol=0, atol=2e-2 * np.abs(expected).max())


def test_beams_as_on_the_cpu(gpu: Device) -> None:
    """A prompt, beams that part, take each other's places and end; two windows in the same memory."""
    models = [whisper_random.load(each) for each in (gpu, device("cpu"))]
    encoders, decoders = zip(*models, strict=True)
    graph, buffers = GraphDecoder(decoders[0], 3), Buffers(gpu, decoders[0].dtype)
    for features in whisper_random.features(2):
        heard = [encoder.forward(features) for encoder in encoders]
        own = GraphBeams(graph, decoders[0].encoded(heard[0], 1, buffers))
        shared = BeamSteps(decoders[1], decoders[1].encoded(heard[1]), decoders[1].cache(3))
        starts = [steps.begin([7, 8, 9], [0, 2]) for steps in (own, shared)]
        got, expected = (logits for logits, _ in starts)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-2 * np.abs(expected).max())
        tables = [[table] * 3 for _, table in starts]
        numbers = np.random.default_rng(8)
        for parents in ([0, 0, 0], [2, 0, 0], [1, 1, 2], *[[0, 1, 2]] * 15, [2, 1], [1, 0]):
            tokens = numbers.integers(0, 1000, len(parents)).tolist()
            steps = [
                each.run(tokens, [rows[parent] for parent in parents])
                for each, rows in zip((own, shared), tables, strict=True)
            ]
            got, expected = (logits for logits, _ in steps)
            np.testing.assert_allclose(got, expected, rtol=0, atol=2e-2 * np.abs(expected).max())
            tables = [rows for _, rows in steps]


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize(("queries", "tokens"), [(1500, 1500), (1, 1500), (4, 1500), (100, 77)])
def test_attention_of_several_sequences(gpu: Device, kind: str, queries: int, tokens: int) -> None:
    """Not causal, heads of 64, as Whisper's: of a batch, as of each sequence alone in double precision."""
    dtype, batch, heads = getattr(xp, kind), 3, 4
    values = [
        RANDOM.standard_normal((batch, count, heads, 64), np.float32)
        for count in (queries, tokens, tokens)
    ]
    arrays = [xp.asarray(one, dtype=dtype, device=gpu) for one in values]
    out = xp.full((batch, queries, heads, 64), float("nan"), dtype=dtype, device=gpu)
    ops.attention(*arrays, False, out=out)
    q, k, v = (read(one).astype(float) for one in arrays)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / 8
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhqk,bkhd->bqhd", scores / scores.sum(-1, keepdims=True), v)
    tolerance = (8e-3 if kind == "bfloat16" else 1e-3) * np.abs(expected).max()
    np.testing.assert_allclose(read(out), expected, rtol=0, atol=tolerance)
