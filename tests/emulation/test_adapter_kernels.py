"""The two products of LoRA adapters against double precision, run thread by thread on the host."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel, from_bf16, random_bf16

from kernel_variants import activation

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
