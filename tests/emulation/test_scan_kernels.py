"""The scans of Mamba-2 against double precision, run thread by thread on the host."""

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel, from_bf16, random_bf16

HEADS, HEAD_DIM, GROUPS = 2, 64, 1
INNER = HEADS * HEAD_DIM


def expected(
    projected: npt.NDArray[np.uint16],
    convolved: npt.NDArray[np.uint16],
    vectors: list[npt.NDArray[np.float32]],
    state: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Outputs and the last state by the recurrence, row by row."""
    state_size = state.shape[-1]
    gates, rows = from_bf16(projected[:, :INNER]), from_bf16(convolved)
    a_log, d, bias = (vector.astype(np.float64) for vector in vectors)
    steps = np.log1p(np.exp(from_bf16(projected[:, -HEADS:]) + bias))
    outputs = []
    for row, step in zip(rows, steps, strict=True):
        x, b, c = np.split(row, (INNER, INNER + GROUPS * state_size))
        x = x.reshape(HEADS, HEAD_DIM)
        decay = np.exp(-np.exp(a_log) * step)
        state = decay[:, None, None] * state + (step[:, None] * x)[:, :, None] * b
        outputs.append((state @ c + d[:, None] * x).reshape(-1))
    return np.stack(outputs) * gates / (1 + np.exp(-gates)), state


def check_scan(
    rows: int, state_size: int, *, chunked: bool, starts: bool, early_copies: bool = False,
    backward: bool = False, shares: bool = False,
) -> None:  # fmt: skip
    """One sequence of so many rows, from its start or in its middle; another has none.

    A scan that shares its sequences with the other takes those of its numbers of rows.
    """
    limit = {"MIN_ROWS": 16} if chunked else {"MAX_ROWS": 15}
    options = limit if shares else {}
    channels = INNER + 2 * GROUPS * state_size
    projected = random_bf16(1, rows, INNER + channels + HEADS)
    convolved = random_bf16(2, rows, channels)
    random = np.random.default_rng(3)
    vectors = [random.standard_normal(HEADS).astype(np.float32) for _ in range(3)]
    vectors[2] -= 2
    state = random.standard_normal((3, HEADS, HEAD_DIM, state_size)).astype(np.float32)
    before = state.copy()
    out = np.full((rows, INNER), 0xFFFF, np.uint16)
    if chunked:
        kernel = Kernel("chunked_scan.cu", ELEMENT="bf16", STATE_SIZE=state_size, **options)
        grid: tuple[int, ...] = (HEADS, 2)
        threads = 256
        row_bytes = state_size * 2 + 16
        shared = 2 * 64 * (2 * row_bytes + HEAD_DIM * 2 + 16) + 2 * HEAD_DIM * row_bytes
    else:
        kernel = Kernel(
            "selective_scan.cu", ELEMENT="bf16", HEAD_DIM=HEAD_DIM, ELEMENTS=32,
            ELEMENTS_PER_LANE=2, STATE_SIZE=state_size, LANES_PER_ELEMENT=8, CHUNK_ROWS=16,
            **options,
        )  # fmt: skip
        grid, threads, shared = (HEADS, 2, 2), 128, 0
    kernel(
        grid, threads, projected, convolved, *vectors, np.array([2, 0], np.int32),
        np.array([0, rows, rows], np.int32), np.array([rows + (0 if starts else 5), 0], np.int32),
        state, out, HEADS, GROUPS, 0.0, float("inf"), shared=shared, late=[projected, convolved],
        early_copies=early_copies, backward=backward,
    )  # fmt: skip
    first = np.zeros(state.shape[1:]) if starts else before[2].astype(np.float64)
    outputs, last = expected(projected, convolved, vectors, first)
    np.testing.assert_allclose(from_bf16(out), outputs, rtol=0, atol=1e-2 * np.abs(outputs).max())
    np.testing.assert_allclose(state[2], last, rtol=0, atol=2e-5 * np.abs(last).max())
    np.testing.assert_array_equal(state[:2], before[:2])


def test_chunks_pass_their_state_on() -> None:
    check_scan(70, 64, chunked=True, starts=False)


@pytest.mark.parametrize(("rows", "chunked"), [(15, False), (16, True)])
def test_each_sequence_is_of_one_scan(rows: int, chunked: bool) -> None:
    check_scan(rows, 64, chunked=chunked, starts=True, shares=True)
    with pytest.raises(AssertionError):
        check_scan(rows, 64, chunked=not chunked, starts=True, shares=True)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 64, 150])
@pytest.mark.parametrize("state_size", [64, 128])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_all_scans(rows: int, state_size: int, chunked: bool, backward: bool) -> None:
    check_scan(
        rows, state_size, chunked=chunked, starts=backward, early_copies=backward, backward=backward
    )
