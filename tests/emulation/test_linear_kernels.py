"""GEMV and small-M GEMM against double precision, run thread by thread on the host."""

from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel, from_bf16, random_bf16
from gguf.quants import dequantize

from assay._native import FORMATS, cuda_packed_row_bytes
from kernel_variants import E4M3, FLOAT16, layout

Values = npt.NDArray[np.float64]
EPSILON = 1e-5
BF16_ERROR = 2.0**-8
"""Of the largest value: x times the norm's gain is rounded to bf16."""
CODE_ERROR = 1e-4
"""Of the largest value: x is rounded to 16 bits beside quantized weights."""


def normed(x: Values, gain: Values) -> Values:
    """RMS norm."""
    product: Values = x * gain / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON)
    return product


def swiglu(both: Values) -> Values:
    """silu of the first half, times the second."""
    gates, ups = np.split(both, 2, axis=1)
    product: Values = gates / (1 + np.exp(-gates)) * ups
    return product


def assert_close(got: npt.NDArray[Any], expected: Values, tolerance: float) -> None:
    __tracebackhide__ = True
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("backward", [False, True])
def test_gemv_of_a_norm_and_a_gate(backward: bool) -> None:
    rows, outputs, inputs = 2, 44, 512
    kernel = Kernel(
        "gemv.cu", ELEMENT="bf16", OUTPUT="float", WEIGHT_FORMAT=FLOAT16, GROUP_SIZE=0, NORM=1, GATED=1,
        INPUTS=inputs, MAX_ROWS=2, ROWS_PER_CTA=4, THREADS=64, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1,
    )  # fmt: skip
    weights = random_bf16(1, outputs, inputs, scale=0.1)
    x, gain = random_bf16(2, rows, inputs), random_bf16(3, inputs)
    out = np.full((rows, outputs // 2), np.nan, np.float32)
    # Eleven tiles of two outputs for three CTAs: the last wave is not full.
    kernel(
        3, 64, weights, None, x, gain, None, None, out, rows, outputs, EPSILON,
        late=[x], backward=backward,
    )  # fmt: skip
    product = normed(from_bf16(x), from_bf16(gain)) @ from_bf16(weights).T
    assert_close(out, swiglu(product), BF16_ERROR)


def test_gemv_of_e4m3_adds_bias_and_residual_in_place() -> None:
    outputs, inputs = 70, 528
    kernel = Kernel(
        "gemv.cu", ELEMENT="bf16", OUTPUT="float", WEIGHT_FORMAT=E4M3, GROUP_SIZE=0,
        INPUTS=inputs, MAX_ROWS=1, ROWS_PER_CTA=4, THREADS=32, CHUNKS_PER_THREAD=2, CTAS_PER_SM=1,
    )  # fmt: skip
    codes = np.random.default_rng(4).integers(0, 256, (outputs, inputs)).astype(np.uint8)
    codes[codes % 128 == 127] = 0  # NaN
    # The value of a code, from the definition of e4m3: bias 7, subnormal where the exponent is 0.
    exponent, mantissa = (codes >> 3 & 15).astype(int), (codes & 7) / 8
    size = np.where(exponent > 0, (1 + mantissa) * 2.0 ** (exponent - 7), mantissa * 2.0**-6)
    values = np.where(codes >= 128, -size, size)
    scales = np.random.default_rng(5).uniform(0.5, 2.0, outputs).astype(np.float32)
    x, bias, residual = (
        random_bf16(6, 1, inputs),
        random_bf16(7, outputs),
        random_bf16(8, 1, outputs),
    )
    out = np.full((1, outputs), np.nan, np.float32)
    kernel(2, 32, codes, scales, x, None, bias, residual, out, 1, outputs, 0.0, late=[x, residual])
    product = from_bf16(x) @ (values * scales[:, None]).T
    assert_close(out, product + from_bf16(bias) + from_bf16(residual), 1e-5)


def test_grouped_gemv_reads_the_weights_of_each_expert() -> None:
    experts_count, outputs, inputs, fan_out = 3, 12, 256, 2
    kernel = Kernel(
        "gemv.cu", ELEMENT="bf16", OUTPUT="float", WEIGHT_FORMAT=FLOAT16, GROUP_SIZE=0, GROUPED=1,
        INPUTS=inputs, MAX_ROWS=1, ROWS_PER_CTA=4, THREADS=32, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1,
    )  # fmt: skip
    weights = random_bf16(9, experts_count, outputs, inputs)
    x = random_bf16(10, 2, inputs)
    experts = np.array([2, 0, 1, 2], np.int32)
    out = np.full((4, outputs), np.nan, np.float32)
    kernel(
        (2, 4), 32, weights, None, x, None, None, None, out, 1, outputs, 0.0, experts, fan_out,
        late=[x, experts],
    )  # fmt: skip
    expected = np.stack([
        from_bf16(weights[expert]) @ from_bf16(x[i // fan_out])
        for i, expert in enumerate(experts)
    ])  # fmt: skip
    assert_close(out, expected, 1e-5)


HALVES = {
    "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "IQ4_NL": (0,),
    "MXFP4": (), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q2_K": (80, 82), "Q6_K": (208,), "Q3_K": (108,),
    "IQ4_XS": (0,),
}  # fmt: skip
"""Where the blocks of each format hold numbers of 16 bits, which random bits would make NaN."""


def random_blocks(name: str, outputs: int, inputs: int) -> tuple[npt.NDArray[np.uint8], Values]:
    """Blocks of a GGML format, and their values as the gguf package dequantizes them."""
    random = np.random.default_rng(len(name) + outputs)
    kind = gguf.GGMLQuantizationType[name]
    weights, nbytes = gguf.GGML_QUANT_SIZES[kind]
    count = outputs * inputs // weights
    blocks = random.integers(0, 256, (count, nbytes), dtype=np.uint8)
    for at in HALVES[name]:
        scale = random.uniform(-2, 2, (count, 1)).astype(np.float16)
        blocks[:, at : at + 2] = scale.view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = random.integers(110, 140, count)
    rows = blocks.reshape(outputs, -1)
    return rows, dequantize(rows, kind).astype(np.float64).reshape(outputs, inputs)


def packed(
    name: str, blocks: npt.NDArray[np.uint8], outputs: int, inputs: int, gemv: dict[str, Any]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The blocks as pack_blocks.cu repacks them: rows of weights, and of scales."""
    row_bytes = cuda_packed_row_bytes(FORMATS[name.lower()], inputs)
    assert row_bytes is not None
    weights, scales = (np.full((outputs, nbytes), 0xEE, np.uint8) for nbytes in row_bytes)
    line = 128 if name == "Q8_0" else 256
    padded = -(-inputs // line) * line
    pack = Kernel("pack_blocks.cu", **gemv)
    pack((-(-padded // 128 // 32), outputs), 32, blocks, weights, scales, inputs, late=[blocks])
    return weights, scales


def check_blocks(name: str, rows: int) -> None:
    """pack_blocks.cu and gemv.cu of a format, against the values of the gguf package."""
    outputs, inputs = 20, 512
    gemv = layout(name.lower())
    blocks, values = random_blocks(name, outputs, inputs)
    weights, scales = packed(name, blocks, outputs, inputs, gemv)
    kernel = Kernel(
        "gemv.cu", ELEMENT="bf16", OUTPUT="float", NORM=1, INPUTS=inputs, MAX_ROWS=rows,
        ROWS_PER_CTA=4, THREADS=32, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1, **gemv,
    )  # fmt: skip
    x, gain = random_bf16(11, rows, inputs), random_bf16(12, inputs)
    out = np.full((rows, outputs), np.nan, np.float32)
    kernel(2, 32, weights, scales, x, gain, None, None, out, rows, outputs, EPSILON, late=[x])
    assert_close(out, normed(from_bf16(x), from_bf16(gain)) @ values.T, CODE_ERROR)


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
def test_gemv_of_packed_blocks(name: str) -> None:
    check_blocks(name, 1)


def test_gemv_reloads_rows_of_a_tile_while_it_multiplies_others() -> None:
    """As q4_k of long rows: three CTAs have tiles of unequal number, and the last one is not full."""
    outputs, inputs = 100, 512
    gemv = layout("q4_k")
    blocks, values = random_blocks("Q4_K", outputs, inputs)
    weights, scales = packed("Q4_K", blocks, outputs, inputs, gemv)
    results = []
    for reload_rows in (0, 4):
        kernel = Kernel(
            "gemv.cu", ELEMENT="bf16", OUTPUT="float", INPUTS=inputs, MAX_ROWS=1, ROWS_PER_CTA=8, THREADS=32,
            CHUNKS_PER_THREAD=1, CTAS_PER_SM=1, RELOAD_ROWS=reload_rows, **gemv,
        )  # fmt: skip
        x, out = random_bf16(17, 1, inputs), np.full((1, outputs), np.nan, np.float32)
        kernel(3, 32, weights, scales, x, None, None, None, out, 1, outputs, 0.0, late=[x])
        assert_close(out, from_bf16(x) @ values.T, CODE_ERROR)
        results.append(out)
    np.testing.assert_array_equal(*results)


def check_circular_buffer(name: str, gated: int, early_copies: bool) -> None:
    """gemv_hopper.cu of a format, with more tiles than stages and a last tile that is not full."""
    outputs, inputs, stages = 92, 512, 2
    gemv = layout(name.lower())
    blocks, values = random_blocks(name, outputs, inputs)
    weights, scales = packed(name, blocks, outputs, inputs, gemv)
    kernel = Kernel(
        "gemv_hopper.cu", ELEMENT="bf16", OUTPUT="float", NORM=1, GATED=gated, INPUTS=inputs,
        MAX_ROWS=1, ROWS_PER_CTA=8, THREADS=32, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1, STAGES=stages,
        **gemv,
    )  # fmt: skip
    # Random blocks have values in the hundreds; gates of a few units are where silu bends.
    x, gain = random_bf16(11, 1, inputs), random_bf16(12, inputs, scale=1e-4)
    out = np.full((1, outputs // (1 + gated)), np.nan, np.float32)
    kernel(
        3, 64, weights, scales, x, gain, None, None, out, 1, outputs, EPSILON,
        shared=stages * 8 * (weights.shape[1] + scales.shape[1]), late=[x],
        backward=early_copies, early_copies=early_copies,
    )  # fmt: skip
    product = normed(from_bf16(x), from_bf16(gain)) @ values.T
    # A gate and an up have an error each.
    assert_close(out, swiglu(product) if gated else product, CODE_ERROR * (1 + gated))


@pytest.mark.parametrize(("gated", "early_copies"), [(0, False), (1, True)])
def test_gemv_through_a_circular_buffer(gated: int, early_copies: bool) -> None:
    check_circular_buffer("Q5_K", gated, early_copies)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Q4_K", "Q2_K", "Q6_K", "Q3_K", "IQ4_XS"])
def test_gemv_of_all_nested_scales_through_a_circular_buffer(name: str) -> None:
    check_circular_buffer(name, 0, True)
    check_circular_buffer(name, 1, False)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("name", HALVES)
def test_gemv_of_all_packed_blocks(name: str, rows: int) -> None:
    check_blocks(name, rows)


@pytest.mark.parametrize(("backward", "early_copies"), [(False, False), (True, True)])
def test_small_m_gemm_of_two_passes(backward: bool, early_copies: bool) -> None:
    rows, outputs, inputs, warps, stages, slice_k = 5, 70, 1024, 4, 3, 128
    kernel = Kernel(
        "small_m_gemm.cu", ELEMENT="bf16", OUTPUT="float", NORM=1, M_TILES=1, INPUTS=inputs,
        SLICE_K=slice_k, SLICES_PER_PASS=1, STAGES=stages, MAX_TILES=3, WARPS=warps, CTAS_PER_SM=1,
    )  # fmt: skip
    weights, x = random_bf16(13, outputs, inputs), random_bf16(14, rows, inputs)
    gain, residual = random_bf16(15, inputs), random_bf16(16, rows, outputs)
    out = np.full((rows, outputs), np.nan, np.float32)
    kernel(
        2, warps * 32, weights, x, gain, None, residual, out, rows, outputs, EPSILON,
        shared=warps * stages * 16 * (2 * slice_k + 64), late=[x, residual], backward=backward,
        early_copies=early_copies,
    )  # fmt: skip
    product = normed(from_bf16(x), from_bf16(gain)) @ from_bf16(weights).T
    assert_close(out, product + from_bf16(residual), BF16_ERROR)
