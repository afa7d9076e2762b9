"""The GEMMs of few rows that Hopper runs with bulk copies, against double precision, thread by thread on the host."""

import numpy as np
import pytest
from emulator import Changes, Kernel, KernelError, from_bf16, random_bf16

TOLERANCE = 1e-2
"""Of the largest value: results are rounded to bf16."""
ORDERS = [(False, False, True), (True, True, True), (False, True, False)]


def padded(nbytes: int) -> int:
    """Bytes of a row in shared memory: 64 more than a multiple of 128."""
    return nbytes + (192 - nbytes % 128) % 128


def grouped_gemm_error(
    changes: Changes = (),
    *,
    gated: int,
    m_tiles: int,
    blocks: int,
    parts: int,
    chunk: int,
    **order: bool,
) -> float:
    """The largest error of the largest value; NaN where an output is not written."""
    tokens, fan_out, experts_count, outputs, inputs = 9, 2, 12, 72, 256
    warps, stages = 2, 3 if gated else 1
    kernel = Kernel(
        "grouped_small_m_gemm_hopper.cu", ELEMENT="bf16", GATED=gated,
        M_TILES=m_tiles, ROW_BLOCKS=blocks, INPUTS=inputs, PARTS=parts, STAGES=stages, WARPS=warps,
        CHUNK=chunk, EXPERTS=experts_count, MAX_ASSIGNMENTS=32, EXPERTS_READY=0, CTAS_PER_SM=1,
        changes=changes,
    )  # fmt: skip
    weights = random_bf16(8, experts_count, outputs, inputs, scale=0.1)
    x = random_bf16(9, tokens, inputs)
    count = tokens * fan_out
    experts = np.random.default_rng(10).integers(0, experts_count, count).astype(np.int32)
    experts[: 8 * m_tiles + 1] = 5  # more than a tile
    experts[[4, 17]] = -1
    experts[9] = 5
    out = np.full((count, outputs // 2 if gated else outputs), 0xFFFF, np.uint16)
    kernel(
        3, (warps + 1) * 32, weights, x, None, experts, out, count, fan_out, outputs,
        shared=stages * 16 * blocks * (padded(2 * inputs // parts) if parts > 1 else 2 * inputs),
        late=[x, experts], **order,
    )  # fmt: skip
    real = experts >= 0
    assert (out[~real] == 0xFFFF).all()
    expected = np.stack([
        from_bf16(weights[max(expert, 0)]) @ from_bf16(x[i // fan_out])
        for i, expert in enumerate(experts)
    ])  # fmt: skip
    if gated:
        gates, ups = np.split(expected, 2, axis=1)
        expected = gates / (1 + np.exp(-gates)) * ups
    got, expected = from_bf16(out)[real], expected[real]
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(("backward", "early_copies", "alternating"), ORDERS)
@pytest.mark.parametrize(
    ("gated", "m_tiles", "blocks", "parts", "chunk"),
    [(1, 1, 2, 2, 1), (0, 1, 2, 1, 2), (1, 1, 1, 1, 3)],
)
def test_grouped_gemm_over_item_borders(
    backward: bool,
    early_copies: bool,
    alternating: bool,
    gated: int,
    m_tiles: int,
    blocks: int,
    parts: int,
    chunk: int,
) -> None:
    error = grouped_gemm_error(
        gated=gated, m_tiles=m_tiles, blocks=blocks, parts=parts, chunk=chunk,
        backward=backward, early_copies=early_copies, alternating=alternating,
    )  # fmt: skip
    assert error < TOLERANCE


def test_tiles_in_the_order_of_atomics_leave_outputs_unwritten() -> None:
    """Where CTAs disagree which assignments of an expert are in which of its tiles, some are in none."""
    sorted_experts = "ranks[j] = rank_in_batch(own[j], threadIdx.x + j * THREADS);"
    error = grouped_gemm_error(
        (("grouping.cuh", sorted_experts, ";"),), gated=1, m_tiles=1, blocks=1, parts=2, chunk=1,
        alternating=True,
    )  # fmt: skip
    assert np.isnan(error)


def test_a_stage_that_is_not_released_is_a_deadlock() -> None:
    released = "mbarrier_arrive(shared_address(empty + stage.index));"
    kernel = Kernel(
        "grouped_small_m_gemm_hopper.cu", ELEMENT="bf16", GATED=0, M_TILES=1,
        ROW_BLOCKS=1, INPUTS=64, PARTS=1, STAGES=2, WARPS=2, CHUNK=1, EXPERTS=2, MAX_ASSIGNMENTS=4,
        EXPERTS_READY=0, CTAS_PER_SM=1,
        changes=(("grouped_small_m_gemm_hopper.cu", released, ";"),),
    )  # fmt: skip
    weights, x = random_bf16(1, 2, 64, 64), random_bf16(2, 4, 64)
    experts, out = np.array([0, 1, 0, 1], np.int32), np.zeros((4, 64), np.uint16)
    with pytest.raises(KernelError, match="deadlock"):
        kernel(1, 96, weights, x, None, experts, out, 4, 1, 64, shared=2 * 16 * padded(128))
