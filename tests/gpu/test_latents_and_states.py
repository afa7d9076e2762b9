"""Latent attention and state-space layers on a GPU, beside the CPU, from the same rounded inputs."""

from typing import Any

import numpy as np
import pytest

from assay import ops, xp
from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.runtime import Array, Device, cuda, transfer

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(23)
BLOCK = 16


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


class Both:
    """The same numbers on both devices: bfloat16 on the GPU, and what that holds on the CPU."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def normal(self, *shape: int, scale: float = 1.0) -> tuple[Array, Array]:
        values = (RNG.standard_normal(shape) * scale).astype(np.float32)
        on_gpu = xp.asarray(values, dtype=xp.bfloat16, device=self._device)
        return on_gpu, xp.asarray(transfer.values(on_gpu).astype(np.float32), copy=True)

    def exact(self, values: Any, dtype: Any) -> tuple[Array, Array]:
        array = np.array(values, dtype)
        return xp.asarray(array, device=self._device, copy=True), xp.asarray(array, copy=True)


def error(got: Array, expected: Array) -> float:
    wide, narrow = transfer.values(expected), transfer.values(got).astype(np.float32)
    assert np.isfinite(narrow).all()
    return float(np.abs(narrow - wide).max() / np.abs(wide).max())


def batch(both: Both, rows: list[int], lengths: list[int]) -> tuple[int, int, list[Any]]:
    """Rows and contexts of sequences in blocks in any order; returns rows, blocks and metadata."""
    columns = -(-max(lengths) // BLOCK)
    blocks = columns * len(lengths) + 1
    tables = RNG.permutation(blocks - 1)[: columns * len(lengths)].reshape(len(lengths), columns)
    starts = np.cumsum([0, *rows])
    arrays = [both.exact(values, np.int32) for values in (tables, starts, lengths)]
    return int(starts[-1]), blocks, arrays


@pytest.mark.parametrize(
    ("heads", "rank", "rotary"), [(16, 512, 64), (128, 512, 64), (20, 512, 64), (4, 64, 32)]
)
@pytest.mark.parametrize(
    ("rows", "lengths", "splits"),
    [
        ([1, 1, 1], [1, 700, 33], 0),
        ([1, 1, 1], [1, 700, 33], 1),
        ([1, 1, 0, 1], [1, 2500, 0, 33], 5),
        ([37, 1, 64, 3], [37, 301, 200, 65], 0),
    ],
    ids=["decode", "unsplit", "five splits", "prefill"],
)
def test_latent_attention_matches_the_cpu(
    device: Device,
    heads: int,
    rank: int,
    rotary: int,
    rows: list[int],
    lengths: list[int],
    splits: int,
) -> None:
    both = Both(device)
    count, blocks, metadata = batch(both, rows, lengths)
    # One row more than the sequences have: it becomes zeros.
    latent = both.normal((count + 1) * heads, rank, scale=rank**-0.5)
    rope, cache = both.normal(count + 1, heads * rotary), both.normal(blocks, BLOCK, rank + rotary)
    cache = (cache[0], xp.astype(cache[1], xp.bfloat16))
    got, expected = (
        ops.latent_attention(
            latent[one],
            rope[one],
            cache[one],
            *(array[one] for array in metadata),
            heads=heads,
            scale=0.2,
            max_query_len=max(rows),
            num_splits=splits,
        )
        for one in (0, 1)
    )
    assert error(got, expected) < 2e-2
    assert not transfer.values(got)[count * heads :].any()


@pytest.mark.parametrize("heads", [4, 16, 20, 64])
def test_a_row_of_a_batch_invariant_step_has_the_bits_that_it_has_alone(
    device: Device, heads: int
) -> None:
    both, rank, rotary = Both(device), 512, 64
    rows, lengths = [1, 33, 1], [301, 40, 70]
    count, blocks, metadata = batch(both, rows, lengths)
    latent = both.normal(count * heads, rank, scale=rank**-0.5)[0]
    rope, cache = both.normal(count, heads * rotary)[0], both.normal(blocks, BLOCK, 576)[0]
    tables, starts, seen = (array[0] for array in metadata)

    def attention(latent: Array, rope: Array, *step: Array) -> Any:
        out = ops.latent_attention(
            latent, rope, cache, *step, heads=heads, scale=0.2, num_splits=1,
            max_query_len=max(rope.shape[0], 2),
        )  # fmt: skip
        return transfer.values(out)

    together = attention(latent, rope, tables, starts, seen)
    for sequence, row in ((0, 0), (2, count - 1)):
        own = [transfer.values(one)[sequence : sequence + 1] for one in (tables, seen)]
        table, length = (both.exact(one, np.int32)[0] for one in own)
        alone = attention(
            latent[row * heads : (row + 1) * heads],
            rope[row : row + 1],
            table,
            both.exact([0, 1], np.int32)[0],
            length,
        )
        assert (alone == together[row * heads : (row + 1) * heads]).all()


@pytest.mark.parametrize("interleaved", [True, False])
def test_latent_write_matches_the_cpu(device: Device, interleaved: bool) -> None:
    both, heads, rank, rotary = Both(device), 16, 512, 64
    kv, rope, norm = (
        both.normal(5, rank + rotary),
        both.normal(5, heads * rotary),
        both.normal(rank),
    )
    positions, slots = (
        both.exact([3, 9, 0, 4, 100], np.int32),
        both.exact([5, 40, -1, 0, 63], np.int32),
    )
    caches = (
        xp.zeros((4, BLOCK, rank + rotary), dtype=xp.bfloat16, device=device),
        xp.zeros((4, BLOCK, rank + rotary), dtype=xp.float32),
    )
    for one, name in ((0, device), (1, "cpu")):
        ops.latent_write(
            kv[one],
            rope[one],
            positions[one],
            slots[one],
            ops.rope_table(rotary, 128, interleaved=interleaved, device=name),
            norm[one],
            caches[one],
            heads=heads,
            epsilon=1e-6,
        )
    assert error(*caches) < 1e-2
    assert error(*rope) < 1e-2


@pytest.mark.parametrize(
    ("heads", "size", "groups", "state"),
    [(128, 64, 8, 128), (24, 64, 1, 128), (6, 64, 2, 64), (5, 64, 1, 128), (4, 32, 2, 16)],
)
@pytest.mark.parametrize(
    ("rows", "lengths", "batch_invariant"),
    [
        ([1, 1, 0, 1], [1, 30, 0, 7], False),
        ([150, 2, 1, 9], [150, 2, 8, 20], False),
        ([64, 129, 0, 1], [80, 129, 0, 20], False),
        ([150, 2, 1, 9], [150, 2, 8, 20], True),
    ],
)
def test_state_space_layers_match_the_cpu(
    device: Device,
    heads: int,
    size: int,
    groups: int,
    state: int,
    rows: list[int],
    lengths: list[int],
    batch_invariant: bool,
) -> None:
    both, inner = Both(device), heads * size
    channels = inner + 2 * groups * state
    count = sum(rows)
    starts = both.exact(np.cumsum([0, *rows]), np.int32)
    sequences = (both.exact([6, 2, 0, 4], np.int32), starts, both.exact(lengths, np.int32))
    projected = both.normal(count, inner + channels + heads)
    filters, bias = both.normal(4, channels, scale=0.5), both.normal(channels, scale=0.1)
    scan = [both.exact(RNG.standard_normal(heads), np.float32) for _ in range(3)]
    pasts = both.exact(RNG.standard_normal((7, 3, channels)), np.float32)
    states = both.exact(RNG.standard_normal((7, heads, size, state)), np.float32)
    outputs = []
    for one in (0, 1):
        metadata = [array[one] for array in sequences]
        convolved = ops.causal_convolution(
            projected[one], filters[one], bias[one], *metadata, pasts[one], first=inner
        )
        outputs.append(convolved)
        if one == 1:
            # The scan of both starts from what the GPU has rounded.
            convolved = xp.asarray(transfer.values(outputs[0]).astype(np.float32), copy=True)
        outputs.append(
            ops.selective_scan(
                projected[one],
                convolved,
                *(vector[one] for vector in scan),
                *metadata,
                states[one],
                groups=groups,
                dt_limit=(0.0, float("inf")),
                batch_invariant=batch_invariant,
            )
        )
    assert error(outputs[0], outputs[2]) < 1e-2
    assert error(outputs[1], outputs[3]) < 1e-2
    assert error(*pasts) < 1e-6
    assert error(*states) < 1e-4


@pytest.mark.parametrize("architecture", ["deepseek_v3", "mamba2"])
def test_a_batch_gives_what_each_prompt_gives_alone(device: Device, architecture: str) -> None:
    """Chunked prefill, decode and slots that change hands, in captured graphs."""
    files = synthetic_model(architecture, seed=5)
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
    prompts = ["A", "the quick brown fox " * 9, "gravity is", "x" * 70, "last"]
    with Engine.load(files, device, max_batch=3, token_budget=48, deterministic=True) as engine:
        together = [one.token_ids for one in engine.generate(prompts, params)]
        alone = [engine.generate([prompt], params)[0].token_ids for prompt in prompts]
    assert together == alone
