"""The KV cache of 8 bits on a CPU: attention over what it stores, and refused shapes."""

import numpy as np
import pytest

from assay import ops, xp
from assay.errors import AssayError
from assay.runtime import device
from kv_cache_reference import errors


@pytest.mark.parametrize("kv_format", ["fp8", "int8"])
@pytest.mark.parametrize(("head_dim", "block_tokens"), [(64, 16), (128, 16), (80, 5), (7, 1)])
@pytest.mark.parametrize("prompt", [False, True])
def test_attention_reads_the_rounded_keys_and_values(
    kv_format: str, head_dim: int, block_tokens: int, prompt: bool
) -> None:
    lengths = (33, 1, 70) if prompt else (70, 1, 200)
    found = errors(
        device("cpu"),
        kv_format,
        head_dim,
        block_tokens=block_tokens,
        lengths=lengths,
        prompt=prompt,
    )
    # Sums in single precision, of values that are rounded as NumPy rounds them.
    assert found < 1e-5


def test_a_head_of_zeros_and_one_with_a_number_that_is_not_finite() -> None:
    head_dim, row = 16, np.zeros((2, 3 * 16), np.float32)
    row[1, 16:32] = np.inf
    for kind, token in ((xp.int8, head_dim + 4), (xp.uint8, head_dim)):
        keys, values = (xp.zeros((1, 16, 1, token), dtype=kind) for _ in range(2))
        integers = [xp.asarray(np.array(one, np.int32), copy=True) for one in ([0, 0], [0, 1])]
        q = ops.rope_write(
            xp.asarray(row, copy=True),
            *integers,
            None,
            keys,
            values,
            heads=1,
            kv_heads=1,
            head_dim=head_dim,
        )
        out = ops.paged_attention(
            q, keys, values, xp.asarray(np.zeros((1, 1), np.int32), copy=True),
            xp.asarray(np.array([0, 2], np.int32), copy=True),
            xp.asarray(np.array([2], np.int32), copy=True),
            heads=1, kv_heads=1, head_dim=head_dim, block_tokens=16,
        ).to_numpy()  # fmt: skip
        assert (out[0] == 0).all()
        # Infinity saturates in e4m3, and is no number times a scale.
        assert np.isnan(out[1]).all() == (kind is xp.int8)


def test_a_cache_without_room_for_its_scales_is_refused() -> None:
    keys = xp.zeros((1, 16, 1, 16), dtype=xp.int8)
    integers = xp.asarray(np.zeros(1, np.int32), copy=True)
    with pytest.raises(AssayError, match=r"keys of shape \(any, any, 1, 20\)"):
        ops.rope_write(
            xp.zeros((1, 48), dtype=xp.float32), integers, integers, None, keys, keys,
            heads=1, kv_heads=1, head_dim=16,
        )  # fmt: skip
