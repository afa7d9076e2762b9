"""RoPE, the paged KV cache and attention against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy_operations as reference
import pytest
from numpy_operations import upload

from assay import ops, xp
from assay.errors import AssayError, DeviceError, DTypeError, InputError, ShapeError
from assay.runtime import Device


def plain_frequencies(dimensions: int, base: float = 10_000.0) -> Any:
    """base to the power of -2 i / dimensions."""
    return base ** (-2.0 * np.arange(dimensions // 2) / dimensions)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(2, 2), (16, 8), (64, 64)])
def test_rope(interleaved: bool, head_dim: int, rotary_dim: int) -> None:
    x = np.random.default_rng(1).standard_normal((5, 3, head_dim)).astype(np.float32)
    positions = np.array([0, 1, 7, 500, 2], np.int32)
    table = ops.rope_table(rotary_dim, 512, interleaved=interleaved)
    out = ops.rope(upload(x), upload(positions), table).to_numpy()
    expected = reference.rotate(x, positions, plain_frequencies(rotary_dim), interleaved)
    assert np.abs(out - expected).max() < 1e-5


def llama3_frequencies(factor: float, low: float, high: float, context: int) -> Any:
    """The frequencies of the reference implementation of Llama 3.1."""
    scaled = []
    for frequency in plain_frequencies(64, 500_000.0):
        wavelength = 2 * math.pi / frequency
        if wavelength < context / high:
            scaled.append(frequency)
        elif wavelength > context / low:
            scaled.append(frequency / factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            scaled.append((1 - smooth) * frequency / factor + smooth * frequency)
    return np.array(scaled)


def test_llama3_scaling_matches_the_reference_implementation() -> None:
    table = ops.rope_table(
        64, 300, 500_000.0, scaling="llama3",
        factor=8.0, original_context=8192, low_frequency=1.0, high_frequency=4.0,
    )  # fmt: skip
    angles = np.arange(300)[:, None] * llama3_frequencies(8.0, 1.0, 4.0, 8192)
    cos_sin = table.cos_sin.to_numpy()
    assert np.abs(cos_sin[:, :32] - np.cos(angles)).max() < 1e-6
    assert np.abs(cos_sin[:, 32:] - np.sin(angles)).max() < 1e-6


def test_linear_scaling_divides_positions_and_ntk_keeps_the_highest_frequency() -> None:
    plain = ops.rope_table(8, 64).cos_sin.to_numpy()
    linear = ops.rope_table(8, 64, scaling="linear", factor=4.0).cos_sin.to_numpy()
    assert np.allclose(linear[::4], plain[:16], atol=1e-6)
    ntk = ops.rope_table(8, 64, scaling="ntk", factor=4.0).cos_sin.to_numpy()
    assert np.allclose(ntk[:, 0], plain[:, 0], atol=1e-6)
    # The lowest frequency is stretched by the factor.
    assert np.allclose(ntk[::4, 3][:16], plain[:16, 3], atol=1e-6)


class Cache:
    """A paged KV cache poisoned with NaN."""

    def __init__(self, dtype: str, blocks: int, block_tokens: int, kv_heads: int, head_dim: int):
        shape = (blocks, block_tokens, kv_heads, head_dim)
        # NaN: reading a slot that was never written would show.
        self.keys = upload(np.full(shape, np.nan), dtype)
        self.values = upload(np.full(shape, np.nan), dtype)
        self.block_tokens = block_tokens


def paged_case(
    dtype: str, block_tokens: int, heads: int, kv_heads: int, head_dim: int, chunks: Any, seed: int
) -> tuple[Any, Any, Any]:
    """Write sequences chunk by chunk and attend to each; returns outputs and expected outputs.

    `chunks` holds the number of new tokens per call and sequence.
    """
    rng = np.random.default_rng(seed)
    totals = np.sum(chunks, 0)
    columns = int(max(-(-total // block_tokens) for total in totals)) + 1
    blocks = columns * len(totals) + 3
    order = rng.permutation(blocks)[: columns * len(totals)].reshape(len(totals), columns)
    cache = Cache(dtype, blocks, block_tokens, kv_heads, head_dim)
    table = ops.rope_table(head_dim, int(totals.max()) + 1) if head_dim % 2 == 0 else None
    width = heads + 2 * kv_heads
    frequencies = plain_frequencies(head_dim)
    held: list[list[Any]] = [[] for _ in totals]
    outputs, expected = [], []
    for chunk in chunks:
        rows = int(sum(chunk)) + 2
        qkv = rng.standard_normal((rows, width, head_dim)).astype(np.float32)
        positions, slot_mapping = np.zeros(rows, np.int32), np.full(rows, -1, np.int32)
        starts, row = [0], 0
        for sequence, new in enumerate(chunk):
            for _ in range(new):
                position = len(held[sequence])
                block = order[sequence, position // block_tokens]
                positions[row] = position
                slot_mapping[row] = block * block_tokens + position % block_tokens
                rotated = qkv[row : row + 1]
                if table is not None:
                    rotated = reference.rotate(rotated, [position], frequencies)
                held[sequence].append((rotated[0, heads : heads + kv_heads], qkv[row, -kv_heads:]))
                row += 1
            starts.append(row)
        seq_lens = [len(each) if new else 0 for each, new in zip(held, chunk, strict=True)]
        q = ops.rope_write(
            upload(qkv.reshape(rows, -1)), upload(positions), upload(slot_mapping), table, cache.keys,
            cache.values, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        )  # fmt: skip
        assert (q.to_numpy()[row:] == 0).all()
        out = ops.paged_attention(
            q, cache.keys, cache.values, upload(order, np.int32), upload(starts, np.int32),
            upload(seq_lens, np.int32), heads=heads, kv_heads=kv_heads, head_dim=head_dim,
            block_tokens=block_tokens,
        ).to_numpy()  # fmt: skip
        wanted = np.zeros((rows, heads, head_dim))
        for sequence, new in enumerate(chunk):
            if new:
                keys = np.array([key for key, _ in held[sequence]])
                values = np.array([value for _, value in held[sequence]])
                mine = slice(starts[sequence], starts[sequence + 1])
                query = q.to_numpy()[mine]
                wanted[mine] = reference.attention(query, keys, values, head_dim**-0.5)
        outputs.append(out.copy())
        expected.append(wanted)
    return outputs, expected, totals


@pytest.mark.parametrize(
    ("dtype", "error"), [("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 3e-2)]
)
@pytest.mark.parametrize("block_tokens", [16, 32, 5, 1])
def test_paged_attention_mixes_prefill_chunks_and_decode_steps(
    dtype: str, error: float, block_tokens: int
) -> None:
    chunks = [(70, 1, 3), (1, 20, 1), (1, 1, 0), (2, 60, 1)]
    outputs, expected, _ = paged_case(dtype, block_tokens, 6, 2, 16, chunks, block_tokens)
    for out, wanted in zip(outputs, expected, strict=True):
        assert np.abs(out - wanted).max() < error


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"), [(1, 1, 64), (9, 3, 64), (4, 4, 80), (8, 1, 128), (3, 1, 7)]
)
def test_paged_attention_head_counts_and_sizes(heads: int, kv_heads: int, head_dim: int) -> None:
    outputs, expected, _ = paged_case(
        "float32", 16, heads, kv_heads, head_dim, [(130, 5), (1, 1)], 3
    )
    for out, wanted in zip(outputs, expected, strict=True):
        assert np.abs(out - wanted).max() < 1e-5


def test_attention_is_bitwise_invariant_to_chunking() -> None:
    # One chunk of 90 tokens and 90 decode steps give the same bits.
    rng = np.random.default_rng(5)
    heads, kv_heads, head_dim, tokens = 6, 2, 32, 90
    qkv = rng.standard_normal((tokens, (heads + 2 * kv_heads) * head_dim)).astype(np.float32)
    table = ops.rope_table(head_dim, 128)
    sizes: dict[str, int] = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    results = []
    for steps in ([tokens], [1] * tokens, [7, 60, 23]):
        cache = Cache("bfloat16", 8, 16, kv_heads, head_dim)
        done, rows = 0, []
        for step in steps:
            at = np.arange(done, done + step, dtype=np.int32)
            q = ops.rope_write(
                upload(qkv[done : done + step]), upload(at), upload(at), table, cache.keys, cache.values,
                **sizes,
            )  # fmt: skip
            done += step
            rows.append(
                ops.paged_attention(
                    q, cache.keys, cache.values, upload([np.arange(8)], np.int32),
                    upload([0, step], np.int32), upload([done], np.int32), block_tokens=16, **sizes,
                ).to_numpy().copy()
            )  # fmt: skip
        results.append(np.concatenate(rows).tobytes())
    assert results[0] == results[1] == results[2]


def test_query_and_key_norms_apply_before_rope() -> None:
    rng = np.random.default_rng(6)
    heads, kv_heads, head_dim, rows = 4, 2, 8, 3
    qkv = rng.standard_normal((rows, heads + 2 * kv_heads, head_dim)).astype(np.float32)
    query_norm, key_norm = rng.standard_normal((2, head_dim)).astype(np.float32)
    cache = Cache("float32", 1, 16, kv_heads, head_dim)
    at = np.arange(rows, dtype=np.int32)
    table = ops.rope_table(head_dim, 16)
    q = ops.rope_write(
        upload(qkv.reshape(rows, -1)), upload(at), upload(at), table, cache.keys, cache.values,
        heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        query_norm=upload(query_norm), key_norm=upload(key_norm), epsilon=1e-6,
    )  # fmt: skip
    frequencies = plain_frequencies(head_dim)
    wanted = reference.rotate(reference.rms_norm(qkv[:, :heads], query_norm, 1e-6), at, frequencies)
    assert np.abs(q.to_numpy() - wanted).max() < 1e-5
    keys = reference.rotate(
        reference.rms_norm(qkv[:, heads : heads + kv_heads], key_norm, 1e-6), at, frequencies,
    )  # fmt: skip
    out = ops.paged_attention(
        q, cache.keys, cache.values, upload([[0]], np.int32), upload([0, rows], np.int32),
        upload([rows], np.int32), heads=heads, kv_heads=kv_heads, head_dim=head_dim, block_tokens=16,
    ).to_numpy()  # fmt: skip
    expected = reference.attention(wanted, keys, qkv[:, -kv_heads:], head_dim**-0.5)
    assert np.abs(out - expected).max() < 1e-5


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("queries", "tokens"), [(1, 1), (5, 5), (3, 200), (130, 130)])
def test_dense_attention(causal: bool, queries: int, tokens: int) -> None:
    rng = np.random.default_rng(queries)
    q = rng.standard_normal((queries, 4, 24)).astype(np.float32)
    k, v = rng.standard_normal((2, tokens, 2, 24)).astype(np.float32)
    out = ops.attention(upload(q), upload(k), upload(v), causal).to_numpy()
    assert np.abs(out - reference.attention(q, k, v, 24**-0.5, causal)).max() < 1e-5


def attend(own: Device, **changes: Any) -> Any:
    """One call of paged attention on a device of its own, with some arguments changed."""
    numbers: dict[str, Any] = {
        "block_tables": [[0, 1]], "query_start_loc": [0, 2], "seq_lens": [3], **changes,
    }  # fmt: skip
    q = xp.ones((2, 2, 4), dtype=xp.float32, device=own)
    cache = xp.ones((2, 16, 1, 4), dtype=xp.float32, device=own)
    index = {name: xp.asarray(each, dtype=xp.int32, device=own) for name, each in numbers.items()}
    out = ops.paged_attention(
        q, cache, cache, heads=2, kv_heads=1, head_dim=4, block_tokens=16, **index
    )
    own.synchronize()
    return out


@pytest.mark.parametrize(
    "changes",
    [
        {"block_tables": [[2, 0]]},
        {"block_tables": [[-1, 0]]},
        {"seq_lens": [33]},
        {"seq_lens": [-1]},
        {"seq_lens": [1]},
        {"query_start_loc": [0, 3]},
        {"query_start_loc": [2, 0]},
        {"query_start_loc": [-1, 2]},
    ],
)
def test_metadata_out_of_range_fails_only_its_own_stream(changes: dict[str, Any]) -> None:
    assert (attend(Device("cpu")).to_numpy() == 1).all()
    with pytest.raises(AssayError):
        attend(Device("cpu"), **changes).to_numpy()


@pytest.mark.parametrize("slots", [[0, 0], [0, 32], [-2, 0]])
def test_invalid_or_duplicate_slots_fail_only_their_call(slots: list[int]) -> None:
    own = Device("cpu")
    qkv = xp.ones((2, 16), dtype=xp.float32, device=own)
    cache = xp.ones((2, 16, 1, 4), dtype=xp.float32, device=own)
    other = xp.ones((2, 16, 1, 4), dtype=xp.float32, device=own)
    at = xp.asarray([0, 1], dtype=xp.int32, device=own)
    given = xp.asarray(slots, dtype=xp.int32, device=own)
    with pytest.raises(DeviceError, match='"rope_write" failed on stream 0'):
        ops.rope_write(qkv, at, given, None, cache, other, heads=2, kv_heads=1, head_dim=4)
    own.synchronize()
    assert float(xp.sum(qkv)) == 32.0


def test_invalid_arguments_raise_named_errors() -> None:
    x = upload(np.ones((2, 3, 4), np.float32))
    at = upload([0, 1], np.int32)
    cache = upload(np.ones((2, 16, 1, 4), np.float32))
    sizes: dict[str, int] = {"heads": 2, "kv_heads": 1, "head_dim": 4}
    table = ops.rope_table(8, 4)
    calls: list[tuple[type[AssayError], str, Any]] = [
        (ShapeError, "rotary_dim of at most 4", lambda: ops.rope(x, at, table)),
        (InputError, "expected a RopeTable", lambda: ops.rope(x, at, x)),  # type: ignore[arg-type]
        (InputError, "a scaling", lambda: ops.rope_table(8, 4, scaling="dynamic")),
        (InputError, "for yarn", lambda: ops.rope_table(8, 4, scaling="yarn", factor=2.0)),
        (InputError, "even rotary_dim", lambda: ops.rope_table(7, 4)),
        (
            DTypeError,
            "positions of int32",
            lambda: ops.rope(x, upload([0, 1]), ops.rope_table(4, 4)),
        ),
        (
            ShapeError,
            "qkv of shape",
            lambda: ops.rope_write(x, at, at, None, cache, cache, **sizes),
        ),
        (ShapeError, "multiples of kv_heads", lambda: ops.attention(x, x[:, :2], x[:, :2])),
        (InputError, "at least 2 tokens", lambda: ops.attention(x, x[:1], x[:1])),
    ]
    for error, text, call in calls:
        with pytest.raises(error) as raised:
            call()
        assert text in raised.value.message
    with pytest.raises(AssayError, match="apart from"):
        ops.rope_write(upload(np.ones((2, 16), "f4")), at, at, None, cache, cache, **sizes)
