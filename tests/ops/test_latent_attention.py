"""Multi-head latent attention: cache write, and attention over the cache, against NumPy."""

import numpy as np
import pytest

from assay import ops, xp
from assay.errors import AssayError
from assay.runtime import Array, dtypes, transfer
from assay.runtime.dtypes import DType

RNG = np.random.default_rng(11)
HEADS, RANK, ROTARY, BLOCK, BLOCKS = 3, 40, 8, 4, 9
WIDTH = RANK + ROTARY


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def on_device(values: np.ndarray) -> Array:
    return xp.asarray(values, copy=True)


def integers(*values: int) -> Array:
    return on_device(np.array(values, np.int32))


def rotated(head: np.ndarray, position: int, interleaved: bool) -> np.ndarray:
    angles = position * 10_000.0 ** (-np.arange(0, ROTARY, 2) / ROTARY)
    turn = np.exp(1j * angles)
    pairs = head.reshape(-1, 2) if interleaved else head.reshape(2, -1).T
    both = (pairs[:, 0] + 1j * pairs[:, 1]) * turn
    out = np.stack([both.real, both.imag], 1)
    return out.reshape(-1) if interleaved else out.T.reshape(-1)


@pytest.mark.parametrize("interleaved", [True, False])
def test_latents_are_normed_keys_rotated_and_padding_skipped(interleaved: bool) -> None:
    kv, queries, norm = normal(4, WIDTH), normal(4, HEADS * ROTARY), 1 + normal(RANK) / 10
    cache, q_rope = on_device(np.full((BLOCKS, BLOCK, WIDTH), 7.0, np.float32)), on_device(queries)
    table = ops.rope_table(ROTARY, 32, interleaved=interleaved)
    positions, slots = (5, 6, 0, 9), (5, 30, -1, 0)
    ops.latent_write(
        on_device(kv),
        q_rope,
        integers(*positions),
        integers(*slots),
        table,
        on_device(norm),
        cache,
        heads=HEADS,
        epsilon=1e-3,
    )
    written, turned = cache.to_numpy().reshape(-1, WIDTH), q_rope.to_numpy()
    for row, (position, slot) in enumerate(zip(positions, slots, strict=True)):
        if slot < 0:
            np.testing.assert_array_equal(turned[row], queries[row])
            continue
        latent = kv[row, :RANK].astype(np.float64)
        expected = latent / np.sqrt((latent**2).mean() + 1e-3) * norm
        np.testing.assert_allclose(written[slot, :RANK], expected, rtol=2e-6)
        key = rotated(kv[row, RANK:], position, interleaved)
        np.testing.assert_allclose(written[slot, RANK:], key, atol=2e-6)
        for head in range(HEADS):
            part = slice(head * ROTARY, (head + 1) * ROTARY)
            expected = rotated(queries[row, part], position, interleaved)
            np.testing.assert_allclose(turned[row, part], expected, atol=2e-6)
    untouched = [slot for slot in range(BLOCKS * BLOCK) if slot not in slots]
    assert (written[untouched] == 7.0).all()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16])
def test_attention_is_that_of_one_key_for_all_heads(dtype: DType) -> None:
    """Two sequences of prefill and decode, an empty one between them, and a row of none."""
    lengths, starts = (11, 0, 30), (0, 3, 3, 4)
    tables = np.array([[2, 5, 0, 0, 0, 0, 0, 0], [0] * 8, [7, 1, 3, 4, 6, 8, 0, 2]], np.int32)
    tables[0, 2] = 0
    cache = xp.astype(on_device(normal(BLOCKS, BLOCK, WIDTH)), dtype)
    rows = transfer.values(cache).astype(np.float64).reshape(-1, WIDTH)
    q_latent, q_rope = normal(5 * HEADS, RANK), normal(5, HEADS * ROTARY)
    got = ops.latent_attention(
        on_device(q_latent),
        on_device(q_rope),
        cache,
        on_device(tables),
        integers(*starts),
        integers(*lengths),
        heads=HEADS,
        scale=0.3,
    ).to_numpy()
    for sequence, length in enumerate(lengths):
        first, end = starts[sequence], starts[sequence + 1]
        for row in range(first, end):
            seen = length - (end - 1 - row)
            tokens = np.arange(seen)
            keys = rows[tables[sequence, tokens // BLOCK] * BLOCK + tokens % BLOCK]
            for head in range(HEADS):
                rope = q_rope[row, head * ROTARY : (head + 1) * ROTARY]
                query = np.concatenate([q_latent[row * HEADS + head], rope]).astype(np.float64)
                scores = 0.3 * keys @ query
                weights = np.exp(scores - scores.max())
                expected = weights @ keys[:, :RANK] / weights.sum()
                np.testing.assert_allclose(got[row * HEADS + head], expected, atol=2e-6)
    assert (got[4 * HEADS :] == 0).all()


def call(**changes: object) -> Array:
    given: dict[str, object] = {
        "q_latent": on_device(normal(HEADS, RANK)),
        "q_rope": on_device(normal(1, HEADS * ROTARY)),
        "cache": on_device(normal(BLOCKS, BLOCK, WIDTH)),
        "block_tables": on_device(np.zeros((1, 2), np.int32)),
        "query_start_loc": integers(0, 1),
        "seq_lens": integers(1),
        "heads": HEADS,
        "scale": 1.0,
    }
    return ops.latent_attention(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cache": on_device(normal(BLOCKS, BLOCK, WIDTH + 1))}, "cache of shape"),
        ({"heads": 2}, "q_rope of shape|q_latent of shape"),
        ({"block_tables": on_device(np.full((1, 2), BLOCKS, np.int32))}, "block_tables"),
        ({"seq_lens": integers(9)}, "seq_lens"),
        ({"query_start_loc": integers(1, 0)}, "query_start_loc"),
    ],
)
def test_wrong_calls_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        call(**changes).to_numpy()


@pytest.mark.parametrize(
    ("slots", "message"), [((0, BLOCKS * BLOCK), "slot_mapping"), ((3, 3), "twice")]
)
def test_slots_out_of_range_and_twice_are_refused(slots: tuple[int, ...], message: str) -> None:
    given = (
        on_device(normal(2, WIDTH)),
        on_device(normal(2, HEADS * ROTARY)),
        integers(0, 1),
        integers(*slots),
        ops.rope_table(ROTARY, 4),
        on_device(normal(RANK)),
        on_device(normal(BLOCKS, BLOCK, WIDTH)),
    )
    with pytest.raises(AssayError, match=message):
        ops.latent_write(*given, heads=HEADS, epsilon=0.0)
