"""Latent attention against double precision, run thread by thread on the host."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel, from_bf16, random_bf16

RANK, ROTARY, BLOCK_TOKENS, TILE_TOKENS, SCALE = 64, 32, 16, 32, 0.2
WIDTH = RANK + ROTARY


class Step:
    """Rows of sequences over a cache of latents in shuffled blocks."""

    def __init__(self, heads: int, rows: tuple[int, ...], lengths: tuple[int, ...]) -> None:
        self.heads, self.rows = heads, rows
        self.starts = np.cumsum([0, *rows]).astype(np.int32)
        self.lengths = np.array(lengths, np.int32)
        columns = -(-max(lengths) // BLOCK_TOKENS)
        order = np.random.default_rng(7).permutation(columns * len(rows) + 1)
        tables = order[: columns * len(rows)].reshape(len(rows), columns)
        self.tables = tables.astype(np.int32)
        count = int(self.starts[-1])
        self.latent = random_bf16(1, count * heads, RANK, scale=RANK**-0.5)
        self.rope = random_bf16(2, count * heads, ROTARY)
        self.cache = random_bf16(3, len(order) * BLOCK_TOKENS, WIDTH)

    def run(self, queries: int, n_warps: int, splits: int, **order: Any) -> npt.NDArray[np.uint16]:
        """The kernel's output, with partials combined where the context is split."""
        kernel = Kernel(
            "latent_attention.cu", ELEMENT="bf16", RANK=RANK, ROTARY=ROTARY, QUERIES=queries,
            N_WARPS=n_warps, TILE_TOKENS=TILE_TOKENS, STAGES=2, SPLIT=int(splits > 1),
        )  # fmt: skip
        every, columns = len(self.latent), self.tables.shape[1]
        out = np.zeros((every, RANK), np.uint16)
        partials = np.full((splits, every, RANK), np.nan, np.float32)
        statistics = np.zeros((splits, every, 2), np.float32)
        context_tiles = -(-columns * BLOCK_TOKENS // TILE_TOKENS)
        row_bytes = (WIDTH // 8 | 1) * 16
        kernel(
            (-(-max(self.rows) * self.heads // queries), len(self.rows), splits),
            queries // 16 * n_warps * 32, self.latent, self.rope, self.cache, self.tables,
            self.starts, self.lengths, out, partials, statistics, int(self.starts[-1]), self.heads,
            BLOCK_TOKENS, columns, -(-context_tiles // splits), SCALE,
            shared=(queries + 2 * TILE_TOKENS) * row_bytes
            + queries * (TILE_TOKENS * 2 + 16 + 4 * n_warps),
            late=[self.latent, self.rope], **order,
        )  # fmt: skip
        self.sums = statistics[:, :, 1]
        if splits > 1:
            combine = Kernel("latent_combine.cu", ELEMENT="bf16", THREADS=128)
            combine(every, 128, partials, statistics, out, every, RANK, splits)
        return out

    def expected(self) -> npt.NDArray[np.float64]:
        """The definition: a row sees its sequence's tokens up to its own."""
        keys = from_bf16(self.cache)
        queries = np.concatenate([from_bf16(self.latent), from_bf16(self.rope)], axis=1)
        out = np.zeros((len(queries), RANK))
        for sequence, length in enumerate(self.lengths):
            first, end = self.starts[sequence : sequence + 2]
            for row in range(first, end):
                token = np.arange(length - (end - 1 - row))
                block = self.tables[sequence, token // BLOCK_TOKENS]
                seen = keys[block * BLOCK_TOKENS + token % BLOCK_TOKENS]
                own = slice(row * self.heads, (row + 1) * self.heads)
                scores = SCALE * queries[own] @ seen.T
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                out[own] = weights @ seen[:, :RANK] / weights.sum(axis=1, keepdims=True)
        return out


def check(step: Step, *shape: int, **order: Any) -> None:
    expected = step.expected()
    got = from_bf16(step.run(*shape, **order))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-2 * np.abs(expected).max())


def test_decode_in_splits() -> None:
    check(Step(4, (1, 1), (5, 70)), 16, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("early_copies", [False, True])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("heads", "rows", "lengths", "shape"),
    [
        (4, (1, 1), (1, 70), (16, 4, 1)),
        (4, (1, 1), (5, 150), (16, 4, 3)),
        (6, (13, 1, 2), (30, 65, 2), (64, 2, 1)),
        (20, (1, 1), (33, 64), (32, 4, 2)),
    ],
)
def test_all_tiles(
    heads: int,
    rows: tuple[int, ...],
    lengths: tuple[int, ...],
    shape: tuple[int, ...],
    early_copies: bool,
    backward: bool,
) -> None:
    check(Step(heads, rows, lengths), *shape, early_copies=early_copies, backward=backward)


def test_warps_of_tokens_decide_bits_and_rows_of_a_tile_do_not() -> None:
    """Why the tile of a batch-invariant step must not follow its rows."""
    step = Step(16, (1,), (150,))
    sums = []
    for queries, n_warps in ((16, 2), (64, 2), (16, 4)):
        step.run(queries, n_warps, 2)
        sums.append(step.sums)
    np.testing.assert_array_equal(sums[0], sums[1])
    assert (sums[0] != sums[2]).any()
