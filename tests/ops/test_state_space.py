"""Causal convolution and selective scan, against NumPy, in chunks of any size."""

from typing import Any

import numpy as np
import pytest

from assay import ops, xp
from assay.errors import AssayError
from assay.runtime import Array

RNG = np.random.default_rng(13)
HEADS, SIZE, GROUPS, STATE, TAPS = 4, 6, 2, 20, 4
INNER = HEADS * SIZE
CHANNELS = INNER + 2 * GROUPS * STATE
WIDTH = INNER + CHANNELS + HEADS
ROWS = 7


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def on_device(values: np.ndarray) -> Array:
    return xp.asarray(values, copy=True)


def integers(*values: int) -> Array:
    return on_device(np.array(values, np.int32))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


PROJECTED = normal(2, ROWS, WIDTH)
FILTERS, BIAS = normal(TAPS, CHANNELS), normal(CHANNELS)
A_LOG, D, DT_BIAS = normal(HEADS), normal(HEADS), normal(HEADS)
LIMIT = (0.05, 1.5)


def expected(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a whole sequence gives: convolved rows, and the gated output of the scan."""
    rows = rows.astype(np.float64)
    before = np.concatenate([np.zeros((TAPS - 1, CHANNELS)), rows[:, INNER : INNER + CHANNELS]])
    taps = [before[tap : tap + ROWS] * FILTERS[tap] for tap in range(TAPS)]
    convolved = silu(sum(taps) + BIAS)
    x = convolved[:, :INNER].reshape(ROWS, HEADS, SIZE)
    b, c = (
        np.repeat(part.reshape(ROWS, GROUPS, STATE), HEADS // GROUPS, axis=1)
        for part in np.split(convolved[:, INNER:], 2, axis=1)
    )
    dt = np.clip(np.log1p(np.exp(rows[:, INNER + CHANNELS :] + DT_BIAS)), *LIMIT)
    state, outputs = np.zeros((HEADS, SIZE, STATE)), []
    for row in range(ROWS):
        decay = np.exp(-np.exp(A_LOG.astype(np.float64)) * dt[row])
        added = (dt[row, :, None] * x[row])[:, :, None] * b[row][:, None, :]
        state = state * decay[:, None, None] + added
        outputs.append((state * c[row][:, None, :]).sum(axis=2) + D[:, None] * x[row])
    return convolved, np.stack(outputs).reshape(ROWS, INNER) * silu(rows[:, :INNER])


def run(chunks: list[list[tuple[int, int, int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Steps of (sequence, first row, rows); returns what each sequence's rows became."""
    states = (np.full((5, TAPS - 1, CHANNELS), np.nan), np.full((5, HEADS, SIZE, STATE), np.nan))
    convolution, scan = (on_device(state.astype(np.float32)) for state in states)
    convolved, outputs = np.zeros((2, ROWS, CHANNELS)), np.zeros((2, ROWS, INNER))
    for step in chunks:
        rows = np.concatenate([PROJECTED[seq, first : first + count] for seq, first, count in step])
        starts = np.cumsum([0, *(count for _, _, count in step)])
        # A padded sequence, without rows, comes last.
        sequences = (
            integers(*(3 - seq for seq, _, _ in step), 0),
            integers(*starts, starts[-1]),
            integers(*(first + count for _, first, count in step), 0),
        )
        x = on_device(rows)
        inner = ops.causal_convolution(
            x, on_device(FILTERS), on_device(BIAS), *sequences, convolution, first=INNER
        )
        out = ops.selective_scan(
            x,
            inner,
            on_device(A_LOG),
            on_device(D),
            on_device(DT_BIAS),
            *sequences,
            scan,
            groups=GROUPS,
            dt_limit=LIMIT,
        )
        for (seq, first, count), start in zip(step, starts, strict=False):
            convolved[seq, first : first + count] = inner.to_numpy()[start : start + count]
            outputs[seq, first : first + count] = out.to_numpy()[start : start + count]
    untouched = convolution.to_numpy()[[0, 1, 4]]
    assert np.isnan(untouched).all()
    return convolved, outputs


@pytest.mark.parametrize(
    "chunks",
    [
        [[(0, 0, ROWS), (1, 0, ROWS)]],
        [[(0, row, 1), (1, row, 1)] for row in range(ROWS)],
        [[(0, 0, 2)], [(1, 0, 5), (0, 2, 4)], [(0, 6, 1), (1, 5, 2)]],
    ],
    ids=["at once", "one by one", "mixed"],
)
def test_rows_give_the_recurrence_however_they_are_cut(
    chunks: list[list[tuple[int, int, int]]],
) -> None:
    convolved, outputs = run(chunks)
    for sequence in range(2):
        inner, out = expected(PROJECTED[sequence])
        np.testing.assert_allclose(convolved[sequence], inner, atol=2e-6)
        np.testing.assert_allclose(outputs[sequence], out, atol=2e-5)


def scan(**changes: Any) -> Array:
    given: dict[str, Any] = {
        "projected": on_device(normal(2, WIDTH)),
        "convolved": on_device(normal(2, CHANNELS)),
        "a_log": on_device(A_LOG),
        "d": on_device(D),
        "dt_bias": on_device(DT_BIAS),
        "slots": integers(0, 1),
        "query_start_loc": integers(0, 1, 2),
        "seq_lens": integers(1, 1),
        "state": on_device(normal(2, HEADS, SIZE, STATE)),
        "groups": GROUPS,
        "dt_limit": LIMIT,
    }
    return ops.selective_scan(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": integers(1, 1)}, "each slot once"),
        ({"slots": integers(0, 2)}, "slots"),
        ({"seq_lens": integers(-1, 1)}, "seq_lens"),
        ({"query_start_loc": integers(0, 2, 1)}, "rising"),
        ({"query_start_loc": integers(0, 1, 3)}, "query_start_loc"),
        ({"groups": 3}, "heads in groups"),
        ({"dt_limit": (1.0, 0.5)}, "dt_min"),
        ({"a_log": on_device(normal(HEADS + 1))}, "a_log of shape"),
    ],
)
def test_wrong_calls_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        scan(**changes).to_numpy()


def test_a_convolution_beyond_its_columns_is_refused() -> None:
    sequences = (integers(0), integers(0, 2), integers(2))
    state = on_device(normal(1, TAPS - 1, CHANNELS))
    with pytest.raises(AssayError, match="channels within"):
        ops.causal_convolution(
            on_device(normal(2, CHANNELS)), on_device(FILTERS), None, *sequences, state, first=1
        )
