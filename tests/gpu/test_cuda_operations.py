"""The operations of the table on a GPU, against NumPy in double precision."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from assay import xp
from assay._native import ACTIVATIONS, FORMATS, OPERATIONS
from assay.errors import DeviceError
from assay.runtime import Array, Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

Values = npt.NDArray[np.float64]
TYPES = {"bf16": (xp.bfloat16, 8e-3), "f16": (xp.float16, 1e-3), "f32": (xp.float32, 1e-5)}
RANDOM = np.random.default_rng(7)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def upload(device: Device, values: npt.NDArray[np.float32], kind: str) -> tuple[Array, Values]:
    """Values on the device, and as rounded to its dtype."""
    on_device = xp.asarray(values, dtype=TYPES[kind][0], device=device)
    return on_device, read(on_device)


def read(array: Array) -> Values:
    stored = array.to_numpy()
    if array.dtype is xp.bfloat16:
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


def random(*shape: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
    return (RANDOM.normal(size=shape) * scale).astype(np.float32)


def poisoned(device: Device, shape: tuple[int, ...], kind: str) -> Array:
    return xp.full(shape, float("nan"), dtype=TYPES[kind][0], device=device)


def integers(device: Device, values: list[int] | npt.NDArray[np.int32]) -> Array:
    return xp.asarray(np.asarray(values, dtype=np.int32), device=device)


CODES = {
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "int32": "i32", "int64": "i64", "uint8": "u8",
}  # fmt: skip


def operate(device: Device, name: str, operands: list[Array | None], numbers: list[float]) -> None:
    device.operate(
        name,
        [
            None
            if one is None
            else (one.buffer, one.offset, one.nbytes, FORMATS[CODES[one.dtype.name]])
            for one in operands
        ],
        numbers,
        label=name,
        bytes=0,
        flops=0.0,
    )


def close(got: Array, expected: Values, kind: str) -> None:
    result = read(got)
    assert not np.isnan(result).any()
    error = np.linalg.norm(result - expected) / max(np.linalg.norm(expected), 1e-30)
    assert error < TYPES[kind][1], error


def gelu_tanh(x: Values) -> Values:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x: Values) -> Values:
    return x / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[[Values], Values]] = {
    "none": lambda x: x, "silu": silu, "gelu_tanh": gelu_tanh, "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("rows", [1, 3, 8, 17, 256])
@pytest.mark.parametrize(("outputs", "inputs"), [(1024, 576), (100, 64), (4096, 4096)])
@pytest.mark.parametrize("extras", ["none", "bias", "residual", "all"])
def test_linear(
    device: Device, kind: str, rows: int, outputs: int, inputs: int, extras: str
) -> None:
    x, x_values = upload(device, random(rows, inputs), kind)
    weights, w_values = upload(device, random(outputs, inputs, scale=inputs**-0.5), kind)
    bias = residual = None
    expected = x_values @ w_values.T
    activation = "silu" if extras == "all" else "gelu_tanh" if extras == "bias" else "none"
    if extras in ("bias", "all"):
        bias, values = upload(device, random(outputs), kind)
        expected = expected + values
    expected = FUNCTIONS[activation](expected)
    if extras in ("residual", "all"):
        residual, values = upload(device, random(rows, outputs), kind)
        expected = expected + values
    out = poisoned(device, (rows, outputs), kind)
    operate(
        device,
        "linear",
        [x, weights, None, bias, residual, out],
        [rows, inputs, outputs, ACTIVATIONS[activation], 0, 0.0],
    )
    close(out, expected, kind)


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("rows", [1, 2, 4, 7, 8, 64])
@pytest.mark.parametrize(("outputs", "inputs"), [(1024, 576), (8192, 4096), (256, 14336)])
@pytest.mark.parametrize("batch_invariant", [0, 1])
def test_linear_fuses_norm_and_swiglu(
    device: Device, kind: str, rows: int, outputs: int, inputs: int, batch_invariant: int
) -> None:
    x, x_values = upload(device, random(rows, inputs, scale=3.0), kind)
    gain, gains = upload(device, 1 + random(inputs, scale=0.1), kind)
    weights, w_values = upload(device, random(outputs, inputs, scale=inputs**-0.5), kind)
    bias, b_values = upload(device, random(outputs), kind)
    normed = x_values / np.sqrt((x_values**2).mean(axis=1, keepdims=True) + 1e-5) * gains
    products = normed @ w_values.T + b_values
    gate, up = np.split(products, 2, axis=1)
    for activation, expected in ((0, products), (5, silu(gate) * up)):
        out = poisoned(device, expected.shape, kind)
        operate(
            device,
            "linear",
            [x, weights, gain, bias, None, out],
            [rows, inputs, outputs, activation, batch_invariant, 1e-5],
        )
        close(out, expected, kind)


def test_linear_gives_single_precision_and_in_place_residuals(device: Device) -> None:
    for rows in (2, 64):
        x, x_values = upload(device, random(rows, 512), "bf16")
        weights, w_values = upload(device, random(300, 512, scale=0.05), "bf16")
        out = poisoned(device, (rows, 300), "f32")
        operate(device, "linear", [x, weights, None, None, None, out], [rows, 512, 300, 0, 0, 0.0])
        close(out, x_values @ w_values.T, "bf16")
        stream, values = upload(device, random(rows, 300), "bf16")
        numbers = [rows, 512, 300, 0, 0, 0.0]
        operate(device, "linear", [x, weights, None, None, stream, stream], numbers)
        close(stream, x_values @ w_values.T + values, "bf16")


@pytest.mark.parametrize("kind", ["bf16", "f32"])
def test_timing_algorithms_changes_no_result(device: Device, kind: str) -> None:
    rows, inputs, outputs = 640, 512, 768
    x, x_values = upload(device, random(rows, inputs), kind)
    weights, w_values = upload(device, random(outputs, inputs, scale=0.05), kind)
    numbers = [rows, inputs, outputs, 0, 0, 0.0]
    for _ in range(2):
        # The residual is added once, although several algorithms were timed.
        stream, values = upload(device, random(rows, outputs), kind)
        out = poisoned(device, (rows, outputs), kind)
        with device.tuning_gemms():
            operate(device, "linear", [x, weights, None, None, stream, stream], numbers)
            operate(device, "linear", [x, weights, None, None, None, out], numbers)
        close(stream, x_values @ w_values.T + values, kind)
        close(out, x_values @ w_values.T, kind)


@pytest.mark.parametrize("kind", ["bf16", "f32"])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul(device: Device, kind: str, transposed: bool) -> None:
    a, a_values = upload(device, random(3, 65, 40), kind)
    shape = (3, 24, 40) if transposed else (3, 40, 24)
    b, b_values = upload(device, random(*shape), kind)
    out = poisoned(device, (3, 65, 24), kind)
    strides = [40 * 24, 1, 40] if transposed else [40 * 24, 24, 1]
    operate(device, "matmul", [a, b, out], [3, 65, 40, 24, 65 * 40, 40, 1, *strides])
    right = b_values.transpose(0, 2, 1) if transposed else b_values
    close(out, a_values @ right, kind)


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 4096), (5, 577), (3, 16384)])
@pytest.mark.parametrize("with_residual", [False, True])
def test_norms_match_numpy(
    device: Device, kind: str, rows: int, columns: int, with_residual: bool
) -> None:
    x, x_values = upload(device, random(rows, columns), kind)
    weight, gain = upload(device, random(columns), kind)
    bias, shift = upload(device, random(columns), kind)
    residual, total = upload(device, random(rows, columns), kind) if with_residual else (None, 0.0)
    out = poisoned(device, (rows, columns), kind)
    operate(device, "rms_norm", [x, weight, residual, out], [rows, columns, 1e-5])
    total = total + x_values
    expected = total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-5) * gain
    close(out, expected, kind)
    if residual is not None:
        close(residual, total, kind)
        total = read(residual) + x_values
    operate(device, "layer_norm", [x, weight, bias, residual, out], [rows, columns, 1e-5])
    centered = total - total.mean(1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(1, keepdims=True) + 1e-5) * gain + shift
    close(out, expected, kind)


@pytest.mark.parametrize("kind", ["bf16", "f32"])
@pytest.mark.parametrize("columns", [7, 1536, 128256])
def test_softmax_swiglu_and_activations_match_numpy(
    device: Device, kind: str, columns: int
) -> None:
    x, values = upload(device, random(4, columns, scale=3.0), kind)
    out = poisoned(device, (4, columns), kind)
    operate(device, "softmax", [x, out], [4, columns])
    powers = np.exp(values - values.max(1, keepdims=True))
    close(out, powers / powers.sum(1, keepdims=True), kind)
    gate_up, both = upload(device, random(4, 2 * columns), kind)
    operate(device, "swiglu", [gate_up, out], [4, columns])
    close(out, silu(both[:, :columns]) * both[:, columns:], kind)
    for name, function in FUNCTIONS.items():
        operate(device, "activate", [x, out], [4 * columns, ACTIVATIONS[name]])
        close(out, function(values), kind)


@pytest.mark.parametrize("kind", ["bf16", "f32"])
@pytest.mark.parametrize("columns", [576, 33])
def test_embedding_and_gather_rows_match_indexing(device: Device, kind: str, columns: int) -> None:
    table, values = upload(device, random(50, columns), kind)
    # The table has fifty rows: the last index is out of bounds.
    row_indices = integers(device, [49, -1, 0, 7, 7, 50])
    zero_row = np.zeros((1, columns))
    expected = np.concatenate([values[[49]], zero_row, values[[0, 7, 7]], zero_row])
    sampled_tokens = integers(device, [3, 7])
    indices_with_samples = integers(device, [49, -1, 0, 7, -3, 2**31 - 1])
    calls = [
        ("embedding", [row_indices, None, table]),
        ("embedding", [indices_with_samples, sampled_tokens, table]),
        ("gather_rows", [table, row_indices]),
    ]
    for name, inputs in calls:
        out = poisoned(device, (6, columns), kind)
        operate(device, name, [*inputs, out], [6, 50, columns])
        np.testing.assert_array_equal(read(out), expected)


def rotate(x: Values, table: Values, positions: list[int], interleaved: bool) -> Values:
    rotary_dim = table.shape[1]
    out = x.copy()
    for row, position in enumerate(positions):
        cosine, sine = np.split(table[position], 2)
        part = x[row, :, :rotary_dim]
        a, b = (part[:, ::2], part[:, 1::2]) if interleaved else np.split(part, 2, axis=1)
        first, second = a * cosine - b * sine, b * cosine + a * sine
        if interleaved:
            out[row, :, 0:rotary_dim:2], out[row, :, 1:rotary_dim:2] = first, second
        else:
            out[row, :, :rotary_dim] = np.concatenate([first, second], 1)
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("head", "rotary_dim"), [(64, 32), (128, 128), (67, 32), (24, 20)])
def test_rope_matches_numpy(device: Device, interleaved: bool, head: int, rotary_dim: int) -> None:
    x, values = upload(device, random(3, 4, head), "f32")
    table, angles = upload(device, random(20, rotary_dim), "f32")
    positions = [0, 19, 5]
    out = poisoned(device, (3, 4, head), "f32")
    operate(
        device, "rope", [x, integers(device, positions), table, out],
        [3, 4, head, rotary_dim, 20, int(interleaved)],
    )  # fmt: skip
    close(out, rotate(values, angles, positions, interleaved), "f32")


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize(("heads", "kv_heads", "head"), [(32, 8, 128), (9, 3, 64)])
@pytest.mark.parametrize(
    "seq_lens", [[1], [700, 0, 33, 64, 5], [3000] * 3, [8200, 0, 17], [40] * 70, [9] * 180]
)
def test_rope_write_and_decode_attention_match_numpy(
    device: Device, kind: str, heads: int, kv_heads: int, head: int, seq_lens: list[int]
) -> None:
    block, sequences = 16, len(seq_lens)
    columns = max(-(-length // block) for length in seq_lens) + 1
    blocks = sum(-(-length // block) for length in seq_lens) + 2
    order = RANDOM.permutation(blocks).astype(np.int32)
    tables = np.zeros((sequences, columns), np.int32)
    used = 0
    for row, length in enumerate(seq_lens):
        count = -(-length // block)
        tables[row, :count] = order[used : used + count]
        used += count
    history = [random(length, kv_heads, 2, head) for length in seq_lens]
    # (blocks, heads, tokens, head_dim).
    keys = np.zeros((blocks, kv_heads, block, head), np.float32)
    values = np.zeros_like(keys)
    for row, tokens in enumerate(history):
        for at in range(len(tokens) - 1):
            slot = (tables[row, at // block], slice(None), at % block)
            keys[slot], values[slot] = tokens[at, :, 0], tokens[at, :, 1]
    cached_keys, _ = upload(device, keys, kind)
    cached_values, _ = upload(device, values, kind)
    # The last token of each sequence is new; a length of 0 is padding.
    last = [length - 1 for length in seq_lens]
    new_slots = [
        int(tables[row, at // block]) * block + at % block if at >= 0 else -1
        for row, at in enumerate(last)
    ]
    qkv, rounded = upload(device, random(sequences, heads + 2 * kv_heads, head), kind)
    q_out = poisoned(device, (sequences, heads, head), kind)
    operate(
        device, "rope_write",
        [qkv, integers(device, [0] * sequences), integers(device, new_slots), None, None, None,
         cached_keys, cached_values, q_out],
        [sequences, heads, kv_heads, head, 0, 0, 0, block, blocks, 0, 1e-6],
    )  # fmt: skip
    out = poisoned(device, (sequences, heads, head), kind)
    arguments = [
        q_out, cached_keys, cached_values, xp.asarray(tables, device=device),
        integers(device, list(range(sequences + 1))), integers(device, seq_lens), None, None, out,
    ]  # fmt: skip
    numbers = [sequences, sequences, heads, kv_heads, head, block, blocks, columns, 1, 0, 0]
    numbers += [0, head**-0.5, 0.0]
    operate(device, "paged_attention", arguments, numbers)
    result = read(out)
    # By slot: (blocks x tokens, heads, head_dim).
    all_keys, all_values = (
        read(one).transpose(0, 2, 1, 3).reshape(blocks * block, kv_heads, head)
        for one in (cached_keys, cached_values)
    )
    for row, length in enumerate(seq_lens):
        if length == 0:
            assert (result[row] == 0).all()
            continue
        np.testing.assert_array_equal(
            all_keys[new_slots[row]], rounded[row, heads : heads + kv_heads]
        )
        slots = [tables[row, at // block] * block + at % block for at in range(length)]
        q = rounded[row, :heads].reshape(kv_heads, -1, head)
        logits = np.einsum("kgd,tkd->kgt", q, all_keys[slots]) * head**-0.5
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        expected = np.einsum("kgt,tkd->kgd", weights, all_values[slots]).reshape(heads, head)
        error = np.linalg.norm(result[row] - expected) / np.linalg.norm(expected)
        assert error < TYPES[kind][1]
    # A second launch gives the same bits: nothing depends on the order of CTAs, nor on when
    # sequence lengths and block tables are read.
    first = out.to_numpy()
    numbers[10] = 1
    operate(device, "paged_attention", arguments, numbers)
    np.testing.assert_array_equal(out.to_numpy(), first)
    # And so does the fused operation, over a cache without the new tokens.
    unwritten_cache = [upload(device, one, kind)[0] for one in (keys, values)]
    operate(
        device, "decode_attention",
        [qkv, None, None, None, *unwritten_cache, *arguments[3:6], None, None, out],
        [sequences, sequences, heads, kv_heads, head, 0, 0, block, blocks, columns, 0, 1, 0, 0.0,
         head**-0.5, 0.0],
    )  # fmt: skip
    np.testing.assert_array_equal(out.to_numpy(), first)
    for written, expected_cache in zip(unwritten_cache, (cached_keys, cached_values), strict=True):
        np.testing.assert_array_equal(written.to_numpy(), expected_cache.to_numpy())


FEW = [(200, 100), (33, 1), (0, 0), (36, 36)]
"""Tokens of each context, and how many of them are new."""
MANY = [(1 + 37 * index % 400, 1) for index in range(300)]
"""More tiles than an SM has at once: most decode, between prompts of several tiles."""
MANY[70], MANY[299] = (700, 300), (90, 20)
MANY += [(0, 0)] * 12


@pytest.mark.parametrize("contexts", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize(("heads", "kv_heads", "head"), [(8, 2, 128), (9, 3, 64), (4, 4, 256)])
def test_paged_attention_mixes_prefill_and_decode(
    device: Device, heads: int, kv_heads: int, head: int, contexts: list[tuple[int, int]]
) -> None:
    block = 16
    # The last rows are padding.
    query_start_loc = np.cumsum([0, *(new for _, new in contexts)])
    rows = int(query_start_loc[-1]) + 5
    columns = max(-(-length // block) for length, _ in contexts)
    blocks = sum(-(-length // block) for length, _ in contexts)
    tables = np.zeros((len(contexts), columns), np.int32)
    free = iter(RANDOM.permutation(blocks))
    for row, (length, _) in enumerate(contexts):
        for column in range(-(-length // block)):
            tables[row, column] = next(free)
    keys, all_keys = upload(device, random(blocks, kv_heads, block, head), "bf16")
    values, all_values = upload(device, random(blocks, kv_heads, block, head), "bf16")
    q, queries = upload(device, random(rows, heads, head), "bf16")
    out = poisoned(device, (rows, heads, head), "bf16")
    seq_lens = integers(device, [length for length, _ in contexts])
    operate(
        device, "paged_attention",
        [q, keys, values, xp.asarray(tables, device=device), integers(device, query_start_loc), seq_lens,
         None, None, out],
        [rows, len(contexts), heads, kv_heads, head, block, blocks, columns, max(new for _, new in contexts),
         0, 0, 0, head**-0.5, 0.0],
    )  # fmt: skip
    result = read(out)
    assert (result[query_start_loc[-1] :] == 0).all()
    for row, (length, new) in enumerate(contexts):
        if new == 0:
            continue
        k, v = (
            cache[tables[row]].transpose(0, 2, 1, 3).reshape(-1, kv_heads, head)[:length]
            for cache in (all_keys, all_values)
        )
        row_queries = queries[query_start_loc[row] : query_start_loc[row + 1]].reshape(
            new, kv_heads, -1, head
        )
        logits = np.einsum("qkgd,tkd->qkgt", row_queries, k) * head**-0.5
        visible = np.arange(length)[None] <= np.arange(length - new, length)[:, None]
        logits = np.where(visible[:, None, None], logits, -np.inf)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        expected = np.einsum("qkgt,tkd->qkgd", weights, v).reshape(new, heads, head)
        got = result[query_start_loc[row] : query_start_loc[row + 1]]
        assert np.linalg.norm(got - expected) / np.linalg.norm(expected) < 8e-3


@pytest.mark.parametrize("causal", [False, True])
def test_contiguous_attention_matches_numpy(device: Device, causal: bool) -> None:
    q, queries = upload(device, random(70, 8, 128), "bf16")
    keys, k = upload(device, random(150, 2, 128), "bf16")
    values, v = upload(device, random(150, 2, 128), "bf16")
    out = poisoned(device, (70, 8, 128), "bf16")
    operate(
        device, "attention", [q, keys, values, out], [1, 70, 150, 8, 2, 128, int(causal), 128**-0.5]
    )
    logits = np.einsum("qkgd,tkd->qkgt", queries.reshape(70, 2, 4, 128), k) * 128**-0.5
    visible = np.arange(150)[None] <= (np.arange(80, 150) if causal else np.full(70, 149))[:, None]
    logits = np.where(visible[:, None, None], logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    close(out, np.einsum("qkgt,tkd->qkgd", weights, v).reshape(70, 8, 128), "bf16")


@pytest.mark.parametrize("vocabulary", [1000, 1001, 128256])
def test_sample_matches_numpy(device: Device, vocabulary: int) -> None:
    logits, values = upload(device, random(4, vocabulary, scale=3.0), "f32")
    tokens = integers(device, [-7] * 4)
    logprobs = poisoned(device, (4,), "f32")

    def floats(*each: float) -> Array:
        return xp.asarray(np.asarray(each, np.float32), device=device)

    def sample_step(step: int, seeds: Array) -> npt.NDArray[np.int32]:
        operate(
            device, "sample",
            [logits, floats(0, 1, 0.8, 1), integers(device, [0, 1, 5, 0]), floats(1, 1, 1, 0.9),
             floats(0, 0, 0, 0.1), seeds, integers(device, [step] * 4), tokens, logprobs],
            [4, vocabulary],
        )  # fmt: skip
        return np.array(tokens.to_numpy())

    seeds_i32 = integers(device, [1, 2, 3, 4])
    seeds_i64 = xp.asarray(np.arange(1, 5, dtype=np.int64), device=device)
    for step in range(5):
        sampled = sample_step(step, seeds_i32)
        np.testing.assert_array_equal(sampled, sample_step(step, seeds_i64))
        best = values.argmax(1)
        assert list(sampled[:2]) == list(best[:2])
        assert sampled[2] in np.argsort(-values[2])[:5]
        unnormalized = np.exp(values - values.max(1, keepdims=True))
        expected = np.log(unnormalized / unnormalized.sum(1, keepdims=True))[range(4), sampled]
        np.testing.assert_allclose(logprobs.to_numpy(), expected, atol=1e-4)


def test_rows_beyond_the_grid_limit_are_computed(device: Device) -> None:
    rows = 70_000
    x, values = upload(device, random(rows, 1, 8), "f32")
    table, angles = upload(device, random(3, 8), "f32")
    positions = [row % 3 for row in range(rows)]
    out = poisoned(device, (rows, 1, 8), "f32")
    operate(device, "rope", [x, integers(device, positions), table, out], [rows, 1, 8, 8, 3, 0])
    close(out, rotate(values, angles, positions, False), "f32")
    zeros, integer_zeros = (
        xp.zeros(rows, dtype=xp.float32, device=device),
        integers(device, [0] * rows),
    )
    tokens = integers(device, [-7] * rows)
    operate(
        device,
        "sample",
        [x, zeros, integer_zeros, zeros, zeros, integer_zeros, integer_zeros, tokens, None],
        [rows, 8],
    )
    np.testing.assert_array_equal(tokens.to_numpy(), values.reshape(rows, 8).argmax(1))


def test_penalize_matches_numpy(device: Device) -> None:
    for mask in (True, False):
        logits, values = upload(device, random(2, 1001), "f32")
        counts = RANDOM.integers(0, 3, (2, 1001)).astype(np.int32)
        prompt = RANDOM.integers(0, 2, (2, 1001)).astype(np.uint8) * mask
        penalties = [random(2) * 0.1 + 1.2 for _ in range(3)]
        operate(
            device, "penalize",
            [logits, xp.asarray(counts, device=device), xp.asarray(prompt, device=device) if mask else None,
             *(xp.asarray(one, device=device) for one in penalties)],
            [2, 1001],
        )  # fmt: skip
        repetition, presence, frequency = (one[:, None].astype(np.float64) for one in penalties)
        penalized = np.where(values > 0, values / repetition, values * repetition)
        expected = np.where((counts > 0) | (prompt > 0), penalized, values)
        expected = expected - frequency * counts - presence * (counts > 0)
        close(logits, expected, "f32")


def test_masked_logits_are_minus_infinity(device: Device) -> None:
    for rows, columns in ((1, 1), (3, 1001), (2, 128_256)):
        logits, values = upload(device, random(rows, columns), "f32")
        allowed = RANDOM.integers(0, 2, (rows, -(-columns // 32) * 32)).astype(bool)
        words = np.packbits(allowed, axis=1, bitorder="little").view(np.int32)
        operate(device, "mask_logits", [logits, xp.asarray(words, device=device)], [rows, columns])
        expected = np.where(allowed[:, :columns], values, -np.inf)
        np.testing.assert_array_equal(logits.to_numpy(), expected.astype(np.float32))


def test_invalid_operands_are_named(device: Device) -> None:
    x = xp.zeros((2, 64), dtype=xp.bfloat16, device=device)
    short = xp.zeros(10, dtype=xp.bfloat16, device=device)
    single = xp.zeros((2, 64), dtype=xp.float32, device=device)
    table = [
        ([x, short, None, x], "rms_norm: expected weight of 128 bytes"),
        ([x, single, None, x], "rms_norm: expected weight of bf16, got f32"),
    ]
    for operands, message in table:
        with pytest.raises(DeviceError, match=message):
            operate(device, "rms_norm", operands, [2, 64, 1e-5])
    assert "attention" in OPERATIONS
