"""The kernels of a mixture of experts against double precision, run thread by thread on the host."""

import gguf
import numpy as np
import pytest
from emulator import Kernel, from_bf16, random_bf16
from gguf.quants import dequantize
from test_linear_kernels import packed, random_blocks

from kernel_variants import activation, layout

TOLERANCE = 1e-2
"""Of the largest value: results are rounded to bf16."""


@pytest.mark.parametrize("backward", [False, True])
def test_a_cluster_routes_tokens(backward: bool) -> None:
    rows, experts_count, inputs, top_k, warps, cluster = 10, 30, 512, 3, 8, 2
    kernel = Kernel(
        "router.cu", ELEMENT="bf16", INPUTS=inputs, WARPS=warps, CLUSTER_SIZE=cluster, SIGMOID=0,
        NORMALIZE=1, TOP_TWO_GROUPS=0,
    )  # fmt: skip
    x, gain = random_bf16(1, rows, inputs), random_bf16(2, inputs)
    weights = random_bf16(3, experts_count, inputs)
    normed = np.full_like(x, 0xFFFF)
    experts = np.full((rows, top_k), -7, np.int32)
    factors = np.full((rows, top_k), np.nan, np.float32)
    slots = np.arange(rows, dtype=np.int32)
    slots[[2, 9]] = -1
    kernel(
        cluster * -(-rows // 8), warps * 32, x, gain, weights, None, None, slots, normed, experts,
        factors, rows, experts_count, 1e-5, top_k, 1, 1, 1.0,
        cluster=cluster, late=[x], backward=backward,
    )  # fmt: skip
    values = from_bf16(x)
    values = values * from_bf16(gain) / np.sqrt((values**2).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(from_bf16(normed), values, atol=TOLERANCE * np.abs(values).max())
    assert (experts[slots < 0] == -1).all()
    assert (factors[slots < 0] == 0).all()
    values, experts, factors = (one[slots >= 0] for one in (values, experts, factors))
    logits = values @ from_bf16(weights).T
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    best = np.sort(logits, axis=1)[:, ::-1][:, :top_k]
    chosen = np.take_along_axis(logits, experts.astype(np.int64), axis=1)
    # Inputs times gains are rounded to bf16: almost equal experts may swap.
    np.testing.assert_allclose(chosen, best, atol=TOLERANCE * np.abs(logits).max())
    share = np.take_along_axis(probabilities, experts.astype(np.int64), axis=1)
    np.testing.assert_allclose(factors, share / share.sum(axis=1, keepdims=True), atol=0.05)


def test_down_projections_are_summed_by_their_weights() -> None:
    rows, experts_count, outputs, inputs, top_k = 3, 4, 24, 256, 2
    kernel = Kernel(
        "combine_gemv.cu", ELEMENT="bf16", INPUTS=inputs, TOP_K=top_k, ROWS_PER_CTA=4,
        WARPS_PER_EXPERT=1, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1, EXPERTS_READY=0,
    )  # fmt: skip
    weights = random_bf16(4, experts_count, outputs, inputs)
    x, residual = random_bf16(5, rows, top_k, inputs), random_bf16(6, rows, outputs)
    experts = np.array([[3, 1], [0, 3], [-1, -1]], np.int32)
    factors = np.random.default_rng(7).uniform(0.2, 0.8, (rows, top_k)).astype(np.float32)
    # Padding: nothing wrote what its experts would multiply.
    factors[2], x[2] = 0.0, 0x7FFF
    out = np.full((rows, outputs), 0xFFFF, np.uint16)
    kernel(
        (2, rows), 32 * top_k, weights, x, None, experts, factors, residual, None, None, out, outputs,
        late=[x, experts, factors, residual],
    )  # fmt: skip
    expected = from_bf16(residual)
    expected[:2] += np.einsum(
        "tk,tkoi,tki->to", factors[:2], from_bf16(weights)[experts[:2]], from_bf16(x[:2])
    )
    np.testing.assert_allclose(from_bf16(out), expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize(("backward", "early_copies"), [(False, False), (True, True)])
def test_grouped_small_m_gemm(backward: bool, early_copies: bool) -> None:
    tokens, fan_out, experts_count, outputs, inputs = 9, 2, 32, 48, 512
    warps, stages, slice_k = 4, 3, 128
    kernel = Kernel(
        "grouped_small_m_gemm.cu", ELEMENT="bf16", GATED=1, INPUTS=inputs,
        SLICE_K=slice_k, SLICES=1, STAGES=stages, WARPS=warps, EXPERTS=experts_count,
        MAX_ASSIGNMENTS=32,
    )  # fmt: skip
    weights = random_bf16(8, experts_count, outputs, inputs, scale=0.1)
    x = random_bf16(9, tokens, inputs)
    experts = (
        np.random.default_rng(10).integers(0, experts_count, tokens * fan_out).astype(np.int32)
    )
    experts[:11] = 5  # more than a tile of eight
    experts[[4, 17]] = -1
    out = np.full((tokens * fan_out, outputs // 2), 0xFFFF, np.uint16)
    kernel(
        3, warps * 32, weights, x, None, experts, out, tokens * fan_out, fan_out, outputs,
        shared=warps * stages * 16 * (2 * slice_k + 64), late=[x, experts], backward=backward,
        early_copies=early_copies,
    )  # fmt: skip
    real = experts >= 0
    assert (out[~real] == 0xFFFF).all()
    product = np.stack([
        from_bf16(weights[max(expert, 0)]) @ from_bf16(x[i // fan_out])
        for i, expert in enumerate(experts)
    ])  # fmt: skip
    gates, ups = np.split(product, 2, axis=1)
    expected = gates / (1 + np.exp(-gates)) * ups
    got, expected = from_bf16(out)[real], expected[real]
    np.testing.assert_allclose(got, expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize(("backward", "early_copies"), [(False, False), (True, True)])
def test_grouped_gemm_of_mxfp4_as_stored(backward: bool, early_copies: bool) -> None:
    """Gates and ups of two experts, over the ends of a tile's rows, of its outputs and of 128 inputs."""
    experts_count, outputs, inputs, fan_out, tokens = 2, 144, 352, 2, 9
    options = layout("mxfp4")
    blocks, values = random_blocks("MXFP4", experts_count * outputs, inputs)
    blocks[:, ::17] = 120 + blocks[:, ::17] % 8
    values = dequantize(blocks, gguf.GGMLQuantizationType.MXFP4).astype(np.float64)
    weights, scales = packed("MXFP4", blocks, experts_count * outputs, inputs, options)
    x, bias = random_bf16(11, tokens, inputs, scale=0.05), random_bf16(12, experts_count, outputs)
    experts = np.array([1, 0] * (tokens - 1) + [0, -1], np.int32)
    order = np.argsort(np.where(experts < 0, 9, experts), kind="stable").astype(np.int32)
    tiles = np.array([[0, 0, tokens], [1, tokens, tokens - 1], [-1, 0, 0]], np.int32)
    out = np.full((tokens * fan_out, outputs // 2), 0xFFFF, np.uint16)
    kernel = Kernel(
        "grouped_gemm.cu", ELEMENT="bf16", GATED=1, ACTIVATION=activation("none"), **options
    )
    kernel(
        (2, 3), 128, weights, scales, x, bias, order, tiles, out, fan_out, inputs, outputs,
        shared=2 * (64 + 128) * 128, late=[x, order, tiles], backward=backward,
        early_copies=early_copies,
    )  # fmt: skip
    assert (out[experts < 0] == 0xFFFF).all()
    by_expert = values.reshape(experts_count, outputs, inputs)
    product = np.stack([
        by_expert[max(expert, 0)] @ from_bf16(x[i // fan_out]) + from_bf16(bias[max(expert, 0)])
        for i, expert in enumerate(experts)
    ])  # fmt: skip
    gates, ups = np.split(product, 2, axis=1)
    expected = (gates / (1 + np.exp(-gates)) * ups)[experts >= 0]
    got = from_bf16(out[experts >= 0])
    np.testing.assert_allclose(got, expected, atol=2.0**-8 * np.abs(expected).max())
