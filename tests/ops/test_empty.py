"""Operations over nothing: an empty result is one, and no result is made of nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay import ops, xp
from assay.errors import ShapeError
from assay.runtime import Array


def reals(*shape: int) -> Array:
    return xp.zeros(shape, dtype=xp.float32)


def whole(*values: int) -> Array:
    return xp.asarray(np.array(values, np.int32), copy=True)


def paged(rows: int, sequences: int, out: Array | None = None) -> Array:
    cache = reals(1, 4, 1, 8)
    tables = xp.zeros((sequences, 1), dtype=xp.int32)
    starts = xp.zeros((sequences + 1,), dtype=xp.int32)
    lengths = xp.zeros((sequences,), dtype=xp.int32)
    return ops.paged_attention(
        reals(rows, 8), cache, cache, tables, starts, lengths,
        heads=1, kv_heads=1, head_dim=8, block_tokens=4, out=out,
    )  # fmt: skip


def linear(rows: int, inputs: int) -> Array:
    weights = ops.pack(np.zeros((64, inputs), np.float32), "f32", (64, inputs))
    return ops.linear(reals(rows, inputs), weights)


NO_RESULT: list[tuple[Callable[[], Any], tuple[int, ...]]] = [
    (lambda: linear(0, 32), (0, 64)),
    (lambda: ops.embedding(whole(), reals(3, 4)), (0, 4)),
    (lambda: ops.gather_rows(reals(3, 4), whole()), (0, 4)),
    (lambda: ops.softmax(reals(0, 4)), (0, 4)),
    (lambda: paged(0, 1), (0, 8)),
]


@pytest.mark.parametrize(("call", "shape"), NO_RESULT)
def test_empty_result_has_its_shape(call: Callable[[], Any], shape: tuple[int, ...]) -> None:
    assert call().shape == shape


FROM_NOTHING: list[tuple[Callable[[], Any], str]] = [
    (lambda: linear(3, 0), "linear: expected x with elements, got shape (3, 0)"),
    (lambda: ops.embedding(whole(-1), reals(0, 4)), "embedding: expected table with elements"),
    (lambda: ops.gather_rows(reals(0, 4), whole(-1)), "gather_rows: expected x with elements"),
]


@pytest.mark.parametrize(("call", "said"), FROM_NOTHING)
def test_empty_operands_with_nonempty_results_are_refused(
    call: Callable[[], Any], said: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    assert caught.value.message.startswith(said)


def test_paged_attention_without_sequences_writes_zeros() -> None:
    before = xp.ones((2, 8), dtype=xp.float32)
    assert paged(2, 0, out=before) is before
    assert before.tolist() == [[0.0] * 8] * 2


def test_embedding_accepts_empty_sampled_tokens() -> None:
    table = xp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), copy=True)
    out = ops.embedding(whole(2, 0, -1), table, sampled_tokens=whole())
    assert np.asarray(out).tolist() == [[8, 9, 10, 11], [0, 1, 2, 3], [0, 0, 0, 0]]
