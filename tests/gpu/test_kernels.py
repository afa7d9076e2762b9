"""Every kernel against a reference in higher precision, on odd shapes and with poisoned outputs."""

import ctypes
import math

import pytest

torch = pytest.importorskip("torch", reason="the kernels' references need PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import kernel_packing as packing  # noqa: E402
from kernel_harness import Kernel, prefill, relative_error  # noqa: E402
from kernel_variants import E4M3, FLOAT16, INT8, UINT4, activation  # noqa: E402

pytestmark = pytest.mark.gpu

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "float": torch.float32}
CLOSE = {"bf16": 6e-3, "fp16": 1e-3, "float": 1e-5}


def random(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, math.nan, device="cuda", dtype=dtype)


def sm_count() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count


def rms(x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
    x = x.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * gain.double()


WEIGHTS = {
    "float16": (FLOAT16, 16), "int8": (INT8, 8), "e4m3": (E4M3, 8), "uint4": (UINT4, 4),
    "int8 groups": (INT8, 8),
}  # fmt: skip
"""WEIGHT_FORMAT, and bits of a weight."""


class LinearCase:
    """Inputs of a linear layer, and its outputs in double precision."""

    def __init__(
        self, element: str, weight: str, rows: int, outputs: int, inputs: int, extras: str
    ) -> None:
        torch.manual_seed(rows + outputs)
        dtype = DTYPES[element]
        self.element, self.rows, self.outputs, self.inputs = element, rows, outputs, inputs
        dense = random(outputs, inputs, scale=inputs**-0.5)
        self.scales, self.group = None, 0
        self.weight_format, self.bits = WEIGHTS[weight]
        match weight:
            case "float16":
                self.packed = dense.to(dtype)
                dequantized = self.packed.float()
            case "int8":
                self.packed, self.scales, dequantized = packing.quantize_rows(dense)
            case "e4m3":
                self.packed, self.scales, dequantized = packing.quantize_e4m3(dense)
            case "uint4":
                self.group = 32 if inputs % 128 else 128
                self.packed, self.scales, dequantized = packing.quantize_groups(
                    dense, self.group, 4
                )
            case _:
                self.group = 32
                self.packed, self.scales, dequantized = packing.quantize_groups(
                    dense, self.group, 8
                )
        x, gain = random(rows, inputs, dtype=dtype), random(inputs, dtype=dtype)
        norm, gated = extras in ("norm", "all"), extras == "gated"
        expected = x.double()
        if norm:
            product = (x.float() * gain.float()).to(dtype).double()
            expected = product * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-5)
        expected = expected @ dequantized.double().T
        bias = residual = None
        name = "gelu_tanh" if extras == "all" else "none"
        self.columns = outputs // 2 if gated else outputs
        if extras == "all":
            bias, residual = random(outputs, dtype=dtype), random(rows, self.columns, dtype=dtype)
            expected = torch.nn.functional.gelu(expected + bias.double(), approximate="tanh")
            expected = expected + residual.double()
        if gated:
            gates, ups = expected[:, : self.columns], expected[:, self.columns :]
            expected = torch.nn.functional.silu(gates) * ups
        self.gated = gated
        self.expected = expected
        self.given = (x, gain, bias, residual)
        self.options = {
            "ELEMENT": element, "OUTPUT": element, "NORM": int(norm), "GATED": int(gated),
            "ACTIVATION": activation(name),
        }  # fmt: skip

    @property
    def row_chunks(self) -> int:
        return packing.row_chunks(self.bits, self.inputs, self.group)

    def gemv_options(self, threads: int, rows_per_cta: int) -> dict[str, object]:
        """The macros of gemv.cu."""
        return self.options | {
            "INPUTS": self.inputs, "WEIGHT_FORMAT": self.weight_format, "GROUP_SIZE": self.group,
            "ROWS_PER_CTA": rows_per_cta, "THREADS": threads,
            "NO_TAIL": int(self.outputs % rows_per_cta == 0),
            "MAX_ROWS": next(most for most in (1, 2, 4, 8) if most >= self.rows), "CTAS_PER_SM": 1,
            "CHUNKS_PER_THREAD": -(-self.row_chunks // threads),
        }  # fmt: skip

    def out(self) -> torch.Tensor:
        return poison(self.rows, self.columns, dtype=DTYPES[self.element])

    def check(self, out: torch.Tensor) -> None:
        assert relative_error(out, self.expected) < CLOSE[self.element]


EXTRAS = ["none", "norm", "gated", "all"]


@pytest.mark.parametrize("element", ["bf16", "fp16"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs"),
    [(1, 4096, 4096), (3, 1000, 576), (6, 512, 14336), (5, 34, 64), (2, 96, 1056)],
)
@pytest.mark.parametrize("extras", EXTRAS)
def test_gemv_matches_double_precision(
    element: str, weight: str, rows: int, outputs: int, inputs: int, extras: str
) -> None:
    case = LinearCase(element, weight, rows, outputs, inputs, extras)
    threads, rows_per_cta = 256, 2 if rows > 4 else 4
    kernel = Kernel("gemv.cu", **case.gemv_options(threads, rows_per_cta))
    grid = min(-(-outputs // rows_per_cta), sm_count() * 2)
    out = case.out()
    kernel(grid, threads, case.packed, case.scales, *case.given, out, rows, outputs, 1e-5)
    case.check(out)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs", "rows_per_cta", "threads", "grid"),
    [
        (1, 1600, 1056, 16, 256, 3),  # more tiles than one epilogue serves
        (2, 630, 512, 16, 64, 2),  # some CTAs have no last tile, and it has a tail
        (8, 528, 64, 4, 32, 1),  # epilogues of one tile or two
        (4, 260, 4096, 8, 128, 11),
        (3, 94, 576, 2, 64, 47),  # one tile per CTA
    ],
)
@pytest.mark.parametrize("extras", ["gated", "all"])
def test_gemv_of_many_tiles_per_cta_matches_double_precision(
    weight: str,
    rows: int,
    outputs: int,
    inputs: int,
    rows_per_cta: int,
    threads: int,
    grid: int,
    extras: str,
) -> None:
    case = LinearCase("bf16", weight, rows, outputs, inputs, extras)
    kernel = Kernel("gemv.cu", **case.gemv_options(threads, rows_per_cta))
    out = case.out()
    kernel(grid, threads, case.packed, case.scales, *case.given, out, rows, outputs, 1e-5)
    case.check(out)


@pytest.mark.parametrize("element", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs", "slice", "slices", "warps", "stages", "grid"),
    [
        (8, 4096, 4096, 256, 2, 8, 3, 132),
        (5, 1000, 1024, 128, 1, 4, 2, 7),
        (3, 34, 3584, 256, 2, 7, 3, 2),
        (8, 96, 14336, 128, 2, 8, 4, 3),
        (8, 96, 14336, 128, 4, 7, 5, 3),
        (6, 48, 1536, 128, 1, 4, 5, 1),
        (15, 200, 4096, 256, 1, 8, 2, 5),
    ],
)
@pytest.mark.parametrize("extras", EXTRAS)
def test_small_m_gemm_matches_double_precision(
    element: str,
    rows: int,
    outputs: int,
    inputs: int,
    slice: int,
    slices: int,
    warps: int,
    stages: int,
    grid: int,
    extras: str,
) -> None:
    case = LinearCase(element, "float16", rows, outputs, inputs, extras)
    kernel = Kernel(
        "small_m_gemm.cu", **case.options, M_TILES=-(-rows // 8), INPUTS=inputs, SLICE_K=slice,
        SLICES_PER_PASS=slices, STAGES=stages, MAX_TILES=-(-outputs // 16 // grid), WARPS=warps, CTAS_PER_SM=1,
    )  # fmt: skip
    out = case.out()
    kernel(
        grid, warps * 32, case.packed, *case.given, out, rows, outputs, 1e-5,
        shared=warps * stages * 16 * (slice * 2 + 64),
    )  # fmt: skip
    case.check(out)


@pytest.mark.parametrize("weight", ["float16", "int8", "e4m3"])
def test_gemv_propagates_nan(weight: str) -> None:
    dense, x = random(64, 256, scale=0.1), random(1, 256, dtype=torch.bfloat16)
    x[0, 77] = math.nan
    quantize = {
        "float16": lambda w: (w.bfloat16(), None, w),
        "int8": packing.quantize_rows,
        "e4m3": packing.quantize_e4m3,
    }
    packed, scales, _ = quantize[weight](dense)
    out = torch.zeros(1, 64, device="cuda", dtype=torch.bfloat16)
    kernel = Kernel(
        "gemv.cu", ELEMENT="bf16", OUTPUT="bf16", WEIGHT_FORMAT=WEIGHTS[weight][0], MAX_ROWS=1,
        ROWS_PER_CTA=4, THREADS=128, CHUNKS_PER_THREAD=1, CTAS_PER_SM=1, INPUTS=256,
    )  # fmt: skip
    kernel(16, 128, packed, scales, x, None, None, None, out, 1, 64, 1e-5)
    assert out.isnan().all()


def paged_cache(
    lengths: list[int], kv_heads: int, head: int, block: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys and values (blocks, kv heads, tokens, head_dim) in shuffled blocks; unused slots are NaN."""
    block_counts = [-(-length // block) for length in lengths]
    order = torch.randperm(sum(block_counts) + 3, device="cuda").to(torch.int32)
    tables = torch.zeros(
        len(lengths), max([*block_counts, 1]) + 1, dtype=torch.int32, device="cuda"
    )
    keys = torch.full(
        (sum(block_counts) + 3, kv_heads, block, head), math.nan, device="cuda", dtype=dtype
    )
    values = keys.clone()
    used = 0
    for row, (length, count) in enumerate(zip(lengths, block_counts, strict=True)):
        tables[row, :count] = order[used : used + count]
        used += count
        for token in range(0, length, block):
            valid_tokens = min(block, length - token)
            slot_index = int(tables[row, token // block])
            keys[slot_index, :, :valid_tokens] = random(kv_heads, valid_tokens, head, dtype=dtype)
            values[slot_index, :, :valid_tokens] = random(kv_heads, valid_tokens, head, dtype=dtype)
    return keys, values, tables


def contiguous_tokens(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """One sequence's tokens: kv heads, tokens, head_dim."""
    launch = cache[table.long()].permute(1, 0, 2, 3).flatten(1, 2)
    return launch[:, :length].double()


@pytest.mark.parametrize("element", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head"), [(32, 8, 128), (9, 3, 64), (8, 1, 128), (32, 2, 64), (4, 4, 256)]
)
@pytest.mark.parametrize(("splits", "cluster"), [(1, 0), (5, 0), (19, 0), (8, 1)])
def test_decode_attention_matches_double_precision(
    element: str, heads: int, kv_heads: int, head: int, splits: int, cluster: int
) -> None:
    if cluster and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters below compute capability 9.0")
    torch.manual_seed(heads)
    dtype, block = DTYPES[element], 32
    lengths = [1, 17, 700, 0, 333, 64]
    keys, values, tables = paged_cache(lengths, kv_heads, head, block, dtype)
    q = random(len(lengths), heads * head, dtype=dtype)
    out = poison(len(lengths), heads * head, dtype=dtype)
    group_heads = heads // kv_heads
    tiles = -(-group_heads // 8)
    kernel = Kernel(
        "attention_decode.cu", ELEMENT=element, HEAD_DIM=head, HEAD_TILES=tiles,
        WARPS=2 if head * tiles > 128 else 4, CTAS_PER_SM=2, CLUSTER=cluster,
    )  # fmt: skip
    partials = poison(len(lengths) * kv_heads * splits * 8 * tiles * (head + 2))
    counters = torch.zeros(len(lengths) * kv_heads, dtype=torch.int32, device="cuda")
    for _ in range(2):  # the second launch shows that the kernel resets the counters
        kernel(
            (splits, kv_heads, len(lengths)), 64 if head * tiles > 128 else 128, q, keys, values, tables,
            torch.tensor(lengths, dtype=torch.int32, device="cuda"), None, out, partials, counters,
            heads, kv_heads, block, tables.shape[1], ctypes.c_longlong(kv_heads * block * head),
            block * head, head, head**-0.5, cluster=splits if cluster else 0,
        )  # fmt: skip
    for row, length in enumerate(lengths):
        got = out[row].view(heads, head)
        if length == 0:
            assert (got == 0).all()
            continue
        k, v = (
            contiguous_tokens(keys, tables[row], length),
            contiguous_tokens(values, tables[row], length),
        )
        query = q[row].view(kv_heads, group_heads, head).double()
        weights = torch.softmax(query @ k.transpose(1, 2) * head**-0.5, -1)
        assert relative_error(got, (weights @ v).reshape(heads, head)) < CLOSE[element]


def rotated(
    x: torch.Tensor, table: torch.Tensor | None, position: int, interleaved: int
) -> torch.Tensor:
    """RoPE of heads, by the table's cosines and sines."""
    x = x.clone()
    if table is None:
        return x
    rotary_dim = table.shape[1]
    cosines, sines = table[position].double().split(rotary_dim // 2)
    first = x[:, 0:rotary_dim:2] if interleaved else x[:, : rotary_dim // 2]
    second = x[:, 1:rotary_dim:2] if interleaved else x[:, rotary_dim // 2 : rotary_dim]
    a, b = first * cosines - second * sines, second * cosines + first * sines
    x[:, :rotary_dim] = torch.stack([a, b], 2).flatten(1) if interleaved else torch.cat([a, b], 1)
    return x


@pytest.mark.parametrize("element", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head"), [(32, 8, 128), (9, 3, 64), (4, 4, 192), (32, 2, 64), (4, 4, 256)]
)
@pytest.mark.parametrize(
    ("interleaved", "rotates", "qk_norm", "splits", "cluster"),
    [(0, 1, 0, 1, 0), (1, 1, 1, 5, 0), (0, 1, 1, 8, 1), (0, 0, 0, 2, 1)],
)
def test_decode_attention_with_fused_rope_writes_the_new_token(
    element: str,
    heads: int,
    kv_heads: int,
    head: int,
    interleaved: int,
    rotates: int,
    qk_norm: int,
    splits: int,
    cluster: int,
) -> None:
    """The last token of each sequence is not in the cache yet: it is rotated and written first."""
    if cluster and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters below compute capability 9.0")
    torch.manual_seed(heads + head)
    dtype, block = DTYPES[element], 32
    lengths = [1, 17, 700, 0, 333, 64]
    keys, values, tables = paged_cache(lengths, kv_heads, head, block, dtype)
    new_slots = [
        (int(tables[row, (length - 1) // block]), slice(None), (length - 1) % block)
        for row, length in enumerate(lengths)
        if length
    ]
    for slot_index in new_slots:
        keys[slot_index] = values[slot_index] = math.nan
    qkv = random(len(lengths), (heads + 2 * kv_heads) * head, dtype=dtype)
    table = random(700, head) if rotates else None
    gains = [random(head, dtype=dtype) for _ in range(2)] if qk_norm else [None, None]
    out = poison(len(lengths), heads * head, dtype=dtype)
    group_heads = heads // kv_heads
    tiles = -(-group_heads // 8)
    warps = 2 if head * tiles > 128 else 4
    kernel = Kernel(
        "attention_decode.cu", ELEMENT=element, HEAD_DIM=head, HEAD_TILES=tiles, WARPS=warps, CTAS_PER_SM=2,
        CLUSTER=cluster, METADATA_READY=1, FUSED_ROPE=1, INTERLEAVED=interleaved,
    )  # fmt: skip
    partials = poison(len(lengths) * kv_heads * splits * 8 * tiles * (head + 2))
    counters = torch.zeros(len(lengths) * kv_heads, dtype=torch.int32, device="cuda")
    kernel(
        (splits, kv_heads, len(lengths)), warps * 32, qkv, keys, values, tables,
        torch.tensor(lengths, dtype=torch.int32, device="cuda"), None, out, partials, counters, heads,
        kv_heads, block, tables.shape[1], ctypes.c_longlong(kv_heads * block * head), block * head,
        head, head**-0.5, table, *gains, 1e-6, cluster=splits if cluster else 0,
    )  # fmt: skip
    written_slots = iter(new_slots)
    for row, length in enumerate(lengths):
        got = out[row].view(heads, head)
        if length == 0:
            assert (got == 0).all()
            continue
        split = qkv[row].double().view(heads + 2 * kv_heads, head)
        q, k, v = split.split([heads, kv_heads, kv_heads])
        if qk_norm:
            q, k = rms(q, gains[0], 1e-6), rms(k, gains[1], 1e-6)
        q, k = (rotated(each, table, length - 1, interleaved) for each in (q, k))
        slot_index = next(written_slots)
        assert relative_error(keys[slot_index], k) < CLOSE[element]
        assert torch.equal(values[slot_index].double(), v)
        k, v = (
            contiguous_tokens(keys, tables[row], length),
            contiguous_tokens(values, tables[row], length),
        )
        query = q.to(dtype).double().view(kv_heads, group_heads, head)
        weights = torch.softmax(query @ k.transpose(1, 2) * head**-0.5, -1)
        assert relative_error(got, (weights @ v).reshape(heads, head)) < CLOSE[element]


VECTOR_ELEMENTS = {"bf16": 8, "fp16": 8, "float": 4}
"""Elements of a vectorized access where rows are aligned."""


@pytest.mark.parametrize("element", ["bf16", "float"])
@pytest.mark.parametrize(
    ("access", "head"), [("vector", 128), ("vector", 80), ("scalar", 128), ("scalar", 67)]
)
@pytest.mark.parametrize(("rotation", "qk_norm"), [("halves", 0), ("interleaved", 1), ("none", 1)])
def test_rope_write_rotates_and_fills_the_cache(
    element: str, access: str, head: int, rotation: str, qk_norm: int
) -> None:
    dtype, heads, kv_heads, block = DTYPES[element], 6, 2, 16
    interleaved = int(rotation == "interleaved")
    rotary_dim = {"halves": head // 2 * 2, "interleaved": 64, "none": 0}[rotation]
    vector = VECTOR_ELEMENTS[element] if access == "vector" else 1
    lanes = min(32, 1 << (-(-head // (2 * vector)) - 1).bit_length())
    slot_mapping = [5, -1, 47, 16]
    positions = torch.tensor([3, 0, 40, 511], dtype=torch.int32, device="cuda")
    qkv = random(4, (heads + 2 * kv_heads) * head, dtype=dtype)
    table = random(512, rotary_dim) if rotary_dim else None
    gains = [random(head, dtype=dtype) for _ in range(2)] if qk_norm else [None, None]
    keys, values = (poison(3, kv_heads, block, head, dtype=dtype) for _ in range(2))
    q_out = poison(4, heads * head, dtype=dtype)
    kernel = Kernel("rope_write.cu", ELEMENT=element, CACHE_ELEMENT=element, INTERLEAVED=interleaved,
                    VECTOR=vector, LANES_PER_HEAD=lanes, THREADS=64)  # fmt: skip
    kernel(
        (4, -(-(heads + 2 * kv_heads) * lanes // 64)), 64, qkv, positions,
        torch.tensor(slot_mapping, dtype=torch.int32, device="cuda"), table,
        keys, values, q_out, *gains, heads, kv_heads, head, rotary_dim, block,
        ctypes.c_longlong(kv_heads * block * head), block * head, head, 1e-6,
    )  # fmt: skip
    split = qkv.double().view(4, heads + 2 * kv_heads, head)

    for row, slot in enumerate(slot_mapping):
        if slot < 0:
            continue
        q, k, v = split[row].split([heads, kv_heads, kv_heads])
        if qk_norm:
            q, k = rms(q, gains[0], 1e-6), rms(k, gains[1], 1e-6)
        position = int(positions[row])
        assert (
            relative_error(q_out[row].view(heads, head), rotated(q, table, position, interleaved))
            < CLOSE[element]
        )
        slot_index = (slot // block, slice(None), slot % block)
        assert (
            relative_error(keys[slot_index], rotated(k, table, position, interleaved))
            < CLOSE[element]
        )
        assert torch.equal(values[slot_index].double(), v)
    assert int(keys.isnan().all(-1).sum()) == keys[..., 0].numel() - 3 * kv_heads


@pytest.mark.parametrize("element", ["bf16", "fp16", "float"])
@pytest.mark.parametrize("layer_norm", [0, 1])
@pytest.mark.parametrize("width", [4096, 577, 8])
@pytest.mark.parametrize("with_residual", [False, True])
def test_normalize_matches_double_precision(
    element: str, layer_norm: int, width: int, with_residual: bool
) -> None:
    dtype = DTYPES[element]
    vector = next(v for v in ((4, 1) if element == "float" else (8, 1)) if width % v == 0)
    x, weight = random(5, width, dtype=dtype), random(width, dtype=dtype)
    bias = random(width, dtype=dtype) if layer_norm else None
    residual = random(5, width, dtype=dtype) if with_residual else None
    total = (x.float() + residual.float()).to(dtype) if residual is not None else x
    if layer_norm:
        expected = torch.nn.functional.layer_norm(
            total.double(), [width], weight.double(), bias.double(), 1e-5
        )
    else:
        expected = rms(total, weight, 1e-5)
    out = poison(5, width, dtype=dtype)
    threads = 32 * -(-width // (vector * 128))
    kernel = Kernel(
        "normalize.cu",
        ELEMENT=element,
        LAYER_NORM=layer_norm,
        CHUNKS_PER_THREAD=4,
        VECTOR=vector,
        THREADS=threads,
    )
    kernel(5, threads, x, residual, weight, bias, out, width, 1e-5)
    assert relative_error(out, expected) < CLOSE[element]
    if residual is not None:
        assert torch.equal(residual, total)


@pytest.mark.parametrize("element", ["bf16", "fp16", "float"])
@pytest.mark.parametrize("width", [4096, 577, 1])
@pytest.mark.parametrize("chunks", [0, 4])
@pytest.mark.parametrize("log_softmax", [0, 1])
def test_softmax_matches_double_precision(
    element: str, width: int, chunks: int, log_softmax: int
) -> None:
    dtype = DTYPES[element]
    vector = next(v for v in ((4, 1) if element == "float" else (8, 1)) if width % v == 0)
    x = random(7, width, dtype=dtype, scale=4.0)
    if width > 1:
        x[1, width // 2] = math.nan
        x[2, : width - 1] = -math.inf
    out = poison(7, width, dtype=dtype)
    threads = 32 * -(-width // (vector * 128))
    kernel = Kernel(
        "softmax.cu", ELEMENT=element, LOG_SOFTMAX=log_softmax, CHUNKS_PER_THREAD=chunks, VECTOR=vector, THREADS=threads
    )  # fmt: skip
    kernel(7, threads, x, out, width)
    function = torch.log_softmax if log_softmax else torch.softmax
    torch.testing.assert_close(
        out.double(), function(x.double(), -1), rtol=CLOSE[element], atol=1e-6, equal_nan=True
    )


@pytest.mark.parametrize("element", ["bf16", "float"])
@pytest.mark.parametrize("half", [1536, 77])
def test_swiglu_matches_double_precision(element: str, half: int) -> None:
    dtype = DTYPES[element]
    vector = next(v for v in ((4, 1) if element == "float" else (8, 1)) if half % v == 0)
    gate_up, out = random(3, 2 * half, dtype=dtype), poison(3, half, dtype=dtype)
    kernel = Kernel("swiglu.cu", ELEMENT=element, VECTOR=vector)
    kernel((-(-half // (vector * 128)), 3), 128, gate_up, out, half)
    gate, up = gate_up.double().split(half, 1)
    assert relative_error(out, torch.nn.functional.silu(gate) * up) < CLOSE[element]


@pytest.mark.parametrize(("width", "access_bytes"), [(576, 16), (34, 4), (33, 2)])
def test_gather_rows_matches_indexing(width: int, access_bytes: int) -> None:
    x, out = random(50, width, dtype=torch.bfloat16), poison(6, width, dtype=torch.bfloat16)
    rows = torch.tensor([49, -1, 0, 50, -3, -4], dtype=torch.int32, device="cuda")
    sampled_tokens = torch.tensor([11, 7], dtype=torch.int32, device="cuda")
    kernel = Kernel("gather_rows.cu", ACCESS_BYTES=access_bytes)
    kernel(
        (-(-width * 2 // (access_bytes * 64)), 6),
        64,
        x,
        rows,
        sampled_tokens,
        out,
        width * 2,
        50,
        2,
    )
    assert torch.equal(out[0], x[49])
    assert torch.equal(out[2], x[0])
    assert torch.equal(out[4], x[7])
    assert (out[[1, 3, 5]] == 0).all()


def test_penalize_matches_its_definition() -> None:
    rows, vocabulary = 3, 1001
    logits = random(rows, vocabulary)
    counts = torch.randint(0, 3, (rows, vocabulary), device="cuda", dtype=torch.int32)
    prompt = torch.randint(0, 2, (rows, vocabulary), device="cuda", dtype=torch.uint8)
    penalties = [torch.rand(rows, device="cuda") + 0.7 for _ in range(3)]
    repetition, presence, frequency = (p[:, None] for p in penalties)
    occurred = (counts > 0) | (prompt > 0)
    penalized = torch.where(logits > 0, logits / repetition, logits * repetition)
    expected = (
        torch.where(occurred, penalized, logits) - frequency * counts - presence * (counts > 0)
    )
    Kernel("penalize.cu", ELEMENT="float")(
        (8, rows), 128, logits, counts, prompt, *penalties, vocabulary
    )
    torch.testing.assert_close(logits, expected)


def truncated_distribution(
    row: torch.Tensor, temperature: float, k: int, p: float, min_p: float
) -> torch.Tensor:
    """The tokens that min-p, top-k and top-p keep, by falling probability, and their probabilities."""
    probabilities, tokens = torch.softmax(row.double() / temperature, 0).sort(
        descending=True, stable=True
    )
    keep = probabilities >= min_p * probabilities[0]
    if k:
        keep &= torch.arange(len(row), device=row.device) < k
    probabilities, tokens = probabilities[keep], tokens[keep]
    before = probabilities.cumsum(0) - probabilities
    keep = before < p * probabilities.sum()
    return tokens[keep], probabilities[keep] / probabilities[keep].sum()


def sample(
    logits: torch.Tensor,
    parameters: list[tuple[float, int, float, float]],
    seed: int,
    step: int,
    cluster: int,
    vector: int = 1,
):
    rows, vocabulary = logits.shape
    threads = 512 if cluster > 1 else 128
    temperature, k, p, min_p = (
        torch.tensor(column, device="cuda") for column in zip(*parameters, strict=True)
    )
    tokens = torch.full((rows,), -7, dtype=torch.int32, device="cuda")
    logprobs, probabilities = poison(rows), poison(rows, vocabulary)
    element = next(name for name, dtype in DTYPES.items() if dtype == logits.dtype)
    kernel = Kernel(
        "sample.cu", ELEMENT=element, VECTOR=vector, THREADS=threads, CLUSTER_SIZE=cluster
    )
    kernel(
        rows * cluster, threads, logits, temperature.float(), k.int(), p.float(), min_p.float(),
        torch.full((rows,), seed, device="cuda"), torch.arange(step, step + rows, device="cuda"),
        tokens, logprobs, probabilities, vocabulary, cluster=cluster if cluster > 1 else 0,
    )  # fmt: skip
    return tokens, logprobs


def cluster_size_of(launch: str) -> int:
    if launch == "cluster" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters below compute capability 9.0")
    return 8 if launch == "cluster" else 1


@pytest.mark.parametrize("launch", ["one CTA", "cluster"])
@pytest.mark.parametrize(
    ("element", "access"), [("float", "vector"), ("float", "scalar"), ("bf16", "vector")]
)
@pytest.mark.parametrize("vocabulary", [3008, 128256])
def test_sample_matches_the_truncated_distribution(
    launch: str, element: str, access: str, vocabulary: int
) -> None:
    cluster = cluster_size_of(launch)
    vector = VECTOR_ELEMENTS[element] if access == "vector" else 1
    vocabulary += 3 * (vector == 1)
    torch.manual_seed(vocabulary)
    logits = random(13, vocabulary, dtype=DTYPES[element], scale=3.0)
    logits[3, 5] = math.nan
    logits[4, 7] = logits[4, 700] = 40.0
    logits[5] = 0.0
    logits[6] = math.nan
    logits[7, 11] = math.inf
    cases = [(0.0, 0, 1.0, 0.0), (0.0, 5, 0.5, 0.1), (1.0, 1, 1.0, 0.0), (0.8, 0, 1.0, 0.0), (0.0, 0, 1.0, 0.0),
             (1.0, 10, 1.0, 0.0), (1.0, 0, 1.0, 0.0), (1.0, 0, 0.9, 0.0), (0.7, 40, 0.9, 0.0), (1.2, 0, 0.95, 0.05),
             (1.0, 0, 1.0, 0.1), (1.0, 3, 0.2, 0.0), (8.0, 0, 0.9, 0.0)]  # fmt: skip
    first_best = logits.float().cpu().numpy().argmax(1)
    for step in range(8):
        tokens, logprobs = sample(logits, cases, 1234, step, cluster, vector)
        again, _ = sample(logits, cases, 1234, step, cluster, vector)
        assert torch.equal(tokens, again)
        assert tokens[:3].tolist() == first_best[:3].tolist()
        assert int(tokens[4]) == 7
        assert int(tokens[6]) == -1
        assert int(tokens[7]) == 11
        for row in (3, 5, 8, 9, 10, 11, 12):
            clean = logits[row].float().nan_to_num(nan=-math.inf)
            cached, _ = truncated_distribution(clean, *cases[row])
            assert int(tokens[row]) in cached.tolist()
            expected = torch.log_softmax(clean.double(), 0)[int(tokens[row])]
            assert float(logprobs[row]) == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("launch", ["one CTA", "cluster"])
@pytest.mark.parametrize("vocabulary", [1, 3, 8, 33, 1000, 4104])
def test_greedy_sample_takes_the_first_of_equal_maxima(launch: str, vocabulary: int) -> None:
    cluster, vector = cluster_size_of(launch), 4 if vocabulary % 4 == 0 else 1
    torch.manual_seed(vocabulary)
    logits = torch.randint(0, 9, (7, vocabulary), device="cuda").float()
    logits[1, 0] = math.nan
    logits[2] = -math.inf
    logits[3] = math.nan
    logits[4] = -math.inf
    logits[4, 0] = math.nan
    logits[5, vocabulary // 2 :] = math.inf
    tokens, _ = sample(logits, [(0.0, 0, 1.0, 0.0)] * 7, 1, 1, cluster, vector)
    for row, token in zip(logits.tolist(), tokens.tolist(), strict=True):
        finite = [score for score in row if not math.isnan(score)]
        assert token == (row.index(max(finite)) if finite else -1)


@pytest.mark.parametrize("top_k", [0, 5])
def test_sample_keeps_the_best_token_for_any_min_p(top_k: int) -> None:
    logits = random(4, 1000, scale=2.0)
    tokens, _ = sample(
        logits, [(1.0, top_k, 1.0, min_p) for min_p in (1.0, 1.5, 9.0, math.nan)], 7, 1, 1, 4
    )
    assert tokens.tolist() == logits.argmax(1).tolist()


@pytest.mark.parametrize("case", [(1.0, 0, 1.0, 0.0), (0.9, 20, 0.8, 0.01)])
def test_sample_frequencies_match_the_probabilities(case: tuple[float, int, float, float]) -> None:
    torch.manual_seed(5)
    row = random(300, scale=2.0)
    rows = 20000
    tokens, _ = sample(row.expand(rows, 300).contiguous(), [case] * rows, 99, 0, 1, 4)
    cached, probabilities = truncated_distribution(row, *case)
    counts = torch.bincount(tokens.long(), minlength=300)
    assert int(counts.sum()) == int(counts[cached].sum())
    expected = probabilities * rows
    statistic = float(
        ((counts[cached] - expected) ** 2 / expected.clamp_min(1e-9))[expected > 5].sum()
    )
    degrees = int((expected > 5).sum())
    assert statistic < degrees + 6 * math.sqrt(2 * degrees)


def reference_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Rows x heads x head_dim against kv heads x tokens x head_dim; the rows are the last tokens."""
    rows, heads, head = q.shape
    group_heads = heads // k.shape[0]
    logits = (
        torch.einsum("rhd,htd->hrt", q.double(), k.repeat_interleave(group_heads, 0)) * head**-0.5
    )
    if causal:
        masked = torch.arange(k.shape[1], device="cuda")[None] > (
            torch.arange(rows, device="cuda")[:, None] + k.shape[1] - rows
        )
        logits = logits.masked_fill(masked, -math.inf)
    return torch.einsum(
        "hrt,htd->rhd", torch.softmax(logits, -1), v.repeat_interleave(group_heads, 0)
    )


PREFILLS = [(False, 64), (False, 128), (False, 256), (True, 64), (True, 128)]
"""Whether the Hopper kernel, and the head dimension."""


def skip_unless_hopper(hopper: bool) -> None:
    if hopper and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("for compute capability 9.0 alone")


@pytest.mark.parametrize(
    ("element", "block", "heads_per_tile"), [("bf16", 16, 1), ("fp16", 48, 3), ("bf16", 256, 3)]
)
@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
@pytest.mark.parametrize("causal", [0, 1])
def test_prefill_attention_matches_double_precision(
    element: str, block: int, heads_per_tile: int, hopper: bool, head: int, causal: int
) -> None:
    skip_unless_hopper(hopper)
    torch.manual_seed(head)
    dtype, heads, kv_heads = DTYPES[element], 6, 2
    chunks = [(1, 1), (300, 300), (70, 333), (0, 0), (129, 1000), (128, 256)]
    lengths = [length for _, length in chunks]
    query_start_loc = torch.tensor([0, *(rows for rows, _ in chunks)]).cumsum(0).int().cuda()
    keys, values, tables = paged_cache(lengths, kv_heads, head, block, dtype)
    total = int(query_start_loc[-1])
    q, out = random(total, heads, head, dtype=dtype), poison(total, heads, head, dtype=dtype)
    paged = tables, query_start_loc, torch.tensor(lengths, dtype=torch.int32, device="cuda")
    launch = prefill(q, keys, values, out, 300, paged, hopper, causal, heads_per_tile)
    launch()
    for s, (rows, length) in enumerate(chunks):
        if not rows:
            continue
        rows_of_sequence = slice(int(query_start_loc[s]), int(query_start_loc[s]) + rows)
        k, v = (
            contiguous_tokens(keys, tables[s], length),
            contiguous_tokens(values, tables[s], length),
        )
        expected = reference_attention(q[rows_of_sequence], k, v, bool(causal))
        assert relative_error(out[rows_of_sequence], expected) < CLOSE[element]
    first = out.clone()
    out.fill_(math.nan)
    launch()
    assert torch.equal(out, first), "equal inputs give equal bits, and launches leave no state"


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(
    ("rows", "tokens"), [(1, 1), (127, 127), (64, 129), (1000, 1000), (200, 2055)]
)
def test_prefill_attention_of_a_contiguous_cache_matches_double_precision(
    hopper: bool, head: int, causal: int, rows: int, tokens: int
) -> None:
    skip_unless_hopper(hopper)
    torch.manual_seed(rows)
    q, out = (make(rows, 8, head, dtype=torch.bfloat16) for make in (random, poison))
    # Logits that grow along the row, so that accumulators are rescaled again and again.
    k, v = (random(tokens, 2, head, dtype=torch.bfloat16) for _ in range(2))
    k *= torch.linspace(8, 0, tokens, device="cuda").bfloat16()[:, None, None]
    heads_first = [one.transpose(0, 1)[None] for one in (k, v)]
    prefill(q, *heads_first, out, rows, hopper=hopper, causal=causal, heads_per_tile=2)()
    expected = reference_attention(q, *(one[0].double() for one in heads_first), bool(causal))
    assert relative_error(out, expected) < CLOSE["bf16"]


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
def test_prefill_attention_propagates_nan_and_infinity(hopper: bool, head: int) -> None:
    skip_unless_hopper(hopper)
    q, out = (make(300, 4, head, dtype=torch.bfloat16) for make in (random, poison))
    k, v = (random(1, 4, 300, head, dtype=torch.bfloat16) for _ in range(2))
    q[70, 1] = math.nan
    v[0, 2, 290] = math.inf
    prefill(q, k, v, out, 300, hopper=hopper)()
    assert out[70, 1].isnan().all()
    assert not out[290:, 2].isfinite().any()
    out[70, 1] = out[290:, 2] = out[256:290, 2] = 0
    assert out.isfinite().all()


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
def test_prefill_attention_of_many_sequences_matches_double_precision(
    hopper: bool, head: int
) -> None:
    skip_unless_hopper(hopper)
    torch.manual_seed(3)
    source = torch.Generator().manual_seed(4)
    cached = torch.randint(0, 300, (75,), generator=source).tolist()
    # Single tokens, whole prompts, nothing at all; one long chunk far from the first.
    new = [(1, length, 0, min(length, 5))[i % 4] for i, length in enumerate(cached)]
    cached[70], new[70] = 700, 500
    lengths = [max(length, rows) for length, rows in zip(cached, new, strict=True)]
    new = [min(rows, length) for rows, length in zip(new, lengths, strict=True)]
    query_start_loc = torch.tensor([0, *new]).cumsum(0).int().cuda()
    keys, values, tables = paged_cache(lengths, 2, head, 16, torch.bfloat16)
    total = int(query_start_loc[-1])
    q, out = (make(total, 8, head, dtype=torch.bfloat16) for make in (random, poison))
    paged = tables, query_start_loc, torch.tensor(lengths, dtype=torch.int32, device="cuda")
    prefill(q, keys, values, out, total, paged, hopper, heads_per_tile=4)()
    for s, (rows, length) in enumerate(zip(new, lengths, strict=True)):
        if rows:
            rows_of_sequence = slice(int(query_start_loc[s]), int(query_start_loc[s]) + rows)
            k, v = (contiguous_tokens(one, tables[s], length) for one in (keys, values))
            assert (
                relative_error(
                    out[rows_of_sequence], reference_attention(q[rows_of_sequence], k, v, True)
                )
                < 6e-3
            ), s


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
def test_prefill_attention_is_batch_invariant(hopper: bool, head: int) -> None:
    skip_unless_hopper(hopper)
    torch.manual_seed(5)
    q = random(700, 8, head, dtype=torch.bfloat16)
    k, v = (random(1, 2, 700, head, dtype=torch.bfloat16) for _ in range(2))
    k *= torch.linspace(8, 0, 700, device="cuda").bfloat16()[:, None]
    all_rows = poison(700, 8, head, dtype=torch.bfloat16)
    prefill(q, k, v, all_rows, 700, hopper=hopper)()
    for rows in (1, 7, 130, 555):
        last_rows = poison(rows, 8, head, dtype=torch.bfloat16)
        prefill(q[-rows:].contiguous(), k, v, last_rows, rows, hopper=hopper, heads_per_tile=4)()
        assert torch.equal(last_rows, all_rows[-rows:])
