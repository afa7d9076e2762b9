"""The two products of LoRA adapters against double precision, run thread by thread on the host."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel, from_bf16, random_bf16

from kernel_variants import FLOAT16, activation

ADAPTERS = np.array([2, 0, 1, 1, 2], np.int32)
"""Of each row; 0 is none."""
COUNT = 3
BF16_ERROR = 2.0**-8
EPSILON = 1e-5

Values = npt.NDArray[np.float64]


def assert_rounded(got: npt.NDArray[np.uint16], expected: Values) -> None:
    """Equal but for the rounding of the result to bf16."""
    __tracebackhide__ = True
    np.testing.assert_allclose(
        from_bf16(got), expected, rtol=BF16_ERROR, atol=1e-6 * np.abs(expected).max()
    )


def silu(values: Values) -> Values:
    product: Values = values / (1 + np.exp(-values))
    return product


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("norm", "ready"), [(0, 1), (1, 1), (1, 0)])
def test_shrink_of_each_rows_adapter(norm: int, ready: int, backward: bool) -> None:
    rows, inputs, rank = len(ADAPTERS), 328, 12
    kernel = Kernel(
        "lora_shrink.cu", ELEMENT="bf16", INPUTS=inputs, RANK=rank, RANKS_PER_CTA=4, THREADS=32,
        CHUNKS_PER_THREAD=2, NORM=norm, ADAPTERS_READY=ready,
    )  # fmt: skip
    x, gain = random_bf16(1, rows, inputs), random_bf16(2, inputs)
    a = random_bf16(3, COUNT, rank, inputs)
    low = np.full((rows, rank), 0x7FC0, np.uint16)
    late: list[npt.NDArray[Any]] = [x] if ready else [x, ADAPTERS]
    kernel(
        (rank // 4, rows), 32, x, gain if norm else None, a, ADAPTERS, low, EPSILON,
        late=late, backward=backward,
    )  # fmt: skip
    values = from_bf16(x).astype(np.float64)
    if norm:
        values *= from_bf16(gain) / np.sqrt((values**2).mean(axis=1, keepdims=True) + EPSILON)
    expected = np.einsum("ri,rki->rk", values, from_bf16(a)[ADAPTERS]) * (ADAPTERS > 0)[:, None]
    assert_rounded(low, expected)
    assert not low[1].any(), "no adapter"


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("gated", "name", "ready", "rows_per_cta"),
    [(0, "none", 1, 4), (0, "silu", 1, 1), (1, "none", 1, 4), (1, "none", 0, 2)],
)
def test_expand_and_epilogue(
    gated: int, name: str, ready: int, rows_per_cta: int, backward: bool
) -> None:
    rows, columns, rank = len(ADAPTERS), 70, 24
    outputs = columns * (1 + gated)
    kernel = Kernel(
        "lora_expand.cu", ELEMENT="bf16", RANK=rank, ROWS_PER_CTA=rows_per_cta, THREADS=32,
        GATED=gated, ACTIVATION=activation(name), ADAPTERS_READY=ready,
    )  # fmt: skip
    product, low = random_bf16(4, rows, outputs), random_bf16(5, rows, rank)
    b = random_bf16(6, COUNT, outputs, rank, scale=0.2)
    out = np.full((rows, columns), 0x7FC0, np.uint16)
    late: list[npt.NDArray[Any]] = [product, low] if ready else [product, low, ADAPTERS]
    kernel(
        (3, -(-rows // rows_per_cta)), 32, product, low, b, ADAPTERS, out, rows, columns,
        late=late, backward=backward,
    )  # fmt: skip
    delta = np.einsum("rk,rok->ro", from_bf16(low).astype(np.float64), from_bf16(b)[ADAPTERS])
    total = from_bf16(product) + delta * (ADAPTERS > 0)[:, None]
    first, second = total[:, :columns], total[:, columns:]
    activated = silu(first) if gated or name == "silu" else first
    assert_rounded(out, activated * second if gated else activated)
    if not gated and name == "none":
        np.testing.assert_array_equal(out[1], product[1])


def adapted(
    x: Values, weights: Values, low: Values, b: Values, adapters: npt.NDArray[np.int32]
) -> Values:
    """X W^T, and B low of each row's adapter."""
    delta = np.einsum("rk,rok->ro", low, b[adapters]) * (adapters > 0)[:, None]
    total: Values = x @ weights.T + delta
    return total


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("gated", [0, 1])
def test_gemv_adds_the_second_product_before_the_activation(gated: int, backward: bool) -> None:
    rows, outputs, inputs, rank = 2, 44, 512, 72
    adapters = np.array([2, 0], np.int32)
    kernel = Kernel(
        "gemv.cu", ELEMENT="bf16", OUTPUT="float", WEIGHT_FORMAT=FLOAT16, GROUP_SIZE=0, NORM=1,
        GATED=gated, INPUTS=inputs, MAX_ROWS=2, ROWS_PER_CTA=4, THREADS=64, CHUNKS_PER_THREAD=1,
        CTAS_PER_SM=1, LORA_RANK=rank,
    )  # fmt: skip
    weights, x = random_bf16(1, outputs, inputs, scale=0.1), random_bf16(2, rows, inputs)
    gain, low = random_bf16(3, inputs), random_bf16(4, rows, rank)
    b = random_bf16(5, COUNT, outputs, rank, scale=0.2)
    out = np.full((rows, outputs // (1 + gated)), np.nan, np.float32)
    kernel(
        3, 64, weights, None, x, gain, None, None, out, rows, outputs, EPSILON, low, b, adapters,
        late=[x, low], backward=backward,
    )  # fmt: skip
    values = from_bf16(x).astype(np.float64)
    values *= from_bf16(gain) / np.sqrt((values**2).mean(axis=1, keepdims=True) + EPSILON)
    expected = adapted(values, from_bf16(weights), from_bf16(low), from_bf16(b), adapters)
    if gated:
        expected = silu(expected[:, : outputs // 2]) * expected[:, outputs // 2 :]
    np.testing.assert_allclose(out, expected, rtol=0, atol=BF16_ERROR * np.abs(expected).max())


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("gated", [0, 1])
def test_small_m_gemm_adds_the_second_product(gated: int, backward: bool) -> None:
    rows, outputs, inputs, rank = len(ADAPTERS), 72, 512, 64
    kernel = Kernel(
        "small_m_gemm.cu", ELEMENT="bf16", OUTPUT="float", M_TILES=1, INPUTS=inputs, SLICE_K=128,
        SLICES_PER_PASS=1, STAGES=3, MAX_TILES=4, WARPS=4, CTAS_PER_SM=1, GATED=gated,
        LORA_RANK=rank,
    )  # fmt: skip
    weights, x = random_bf16(1, outputs, inputs, scale=0.1), random_bf16(2, rows, inputs)
    residual, low = random_bf16(3, rows, outputs), random_bf16(4, rows, rank)
    b = random_bf16(5, COUNT, outputs, rank, scale=0.2)
    out = np.full((rows, outputs // (1 + gated)), np.nan, np.float32)
    kernel(
        2, 128, weights, x, None, None, None if gated else residual, out, rows, outputs, 0.0,
        low, b, ADAPTERS, shared=4 * 3 * 16 * (2 * 128 + 64), backward=backward,
        late=[x, low] if gated else [x, low, residual],
    )  # fmt: skip
    values = from_bf16(x).astype(np.float64)
    expected = adapted(values, from_bf16(weights), from_bf16(low), from_bf16(b), ADAPTERS)
    if gated:
        expected = silu(expected[:, : outputs // 2]) * expected[:, outputs // 2 :]
    else:
        expected = expected + from_bf16(residual)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
