"""Norms whose weights the kernel before has just written, against double precision, thread by thread on the host."""

import numpy as np
import pytest
from emulator import Kernel

ROWS, WIDTH, EPSILON = 3, 200, 1e-5
RANDOM = np.random.default_rng(17)


def numbers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("layer_norm", "vector"), [(0, 4), (1, 1)])
def test_norm_waits_for_its_weights(layer_norm: int, vector: int) -> None:
    kernel = Kernel(
        "normalize.cu", ELEMENT="float", LAYER_NORM=layer_norm, THREADS=32,
        CHUNKS_PER_THREAD=-(-WIDTH // (32 * vector)), VECTOR=vector,
    )  # fmt: skip
    x, residual, weight = numbers(ROWS, WIDTH), numbers(ROWS, WIDTH), numbers(WIDTH)
    bias = numbers(WIDTH) if layer_norm else None
    out = np.full((ROWS, WIDTH), np.nan, np.float32)
    total = x.astype(np.float64) + residual
    late = [x, residual, weight, *([] if bias is None else [bias])]
    kernel(ROWS, 32, x, residual, weight, bias, out, WIDTH, EPSILON, late=late)
    np.testing.assert_allclose(residual, total, rtol=1e-6, atol=1e-6)
    centered = total - layer_norm * total.mean(axis=1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + EPSILON) * weight
    expected = expected if bias is None else expected + bias
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_norm_before_a_sum_waits_for_its_weights() -> None:
    kernel = Kernel(
        "add_residual.cu", ELEMENT="float", NORM=1, THREADS=32, CHUNKS_PER_THREAD=2, VECTOR=4
    )
    x, residual, weight = numbers(ROWS, WIDTH), numbers(ROWS, WIDTH), numbers(WIDTH)
    out = np.full((ROWS, WIDTH), np.nan, np.float32)
    kernel(ROWS, 32, x, weight, residual, out, WIDTH, EPSILON, 0.5, late=[x, residual, weight])
    normed = x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + EPSILON) * weight
    np.testing.assert_allclose(out, residual + 0.5 * normed, rtol=1e-4, atol=1e-5)
