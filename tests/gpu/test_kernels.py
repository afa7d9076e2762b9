"""Every kernel against a reference in higher precision, on odd shapes and with poisoned outputs."""

import ctypes
import math

import pytest

torch = pytest.importorskip("torch", reason="the kernels' references need PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import kernel_packing as packing  # noqa: E402
from kernel_harness import Kernel, prefill, relative_error  # noqa: E402

pytestmark = pytest.mark.gpu

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "float": torch.float32}
CLOSE = {"bf16": 6e-3, "fp16": 1e-3, "float": 1e-5}


def random(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, math.nan, device="cuda", dtype=dtype)


def multiprocessors() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count


def rms(x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
    x = x.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * gain.double()


def activation(name: int, x: torch.Tensor) -> torch.Tensor:
    functional = torch.nn.functional
    match name:
        case 1:
            return functional.silu(x)
        case 2:
            return functional.gelu(x)
        case 3:
            return functional.gelu(x, approximate="tanh")
        case 4:
            return functional.relu(x)
        case _:
            return x


class LinearCase:
    """Inputs of a linear layer of few rows, and its outputs in double precision."""

    def __init__(
        self, number: str, weight: str, rows: int, outputs: int, inputs: int, extras: str
    ) -> None:
        torch.manual_seed(rows + outputs)
        dtype = DTYPES[number]
        self.number, self.rows, self.outputs, self.inputs = number, rows, outputs, inputs
        dense = random(outputs, inputs, scale=inputs**-0.5)
        self.scales, self.group, self.kind = None, 0, int(weight.rstrip("g"))
        match weight:
            case "16":
                self.packed = dense.to(dtype)
                stands_for = self.packed.float()
            case "8":
                self.packed, self.scales, stands_for = packing.quantize_rows(dense)
            case "80":
                self.packed, self.scales, stands_for = packing.quantize_e4m3(dense)
            case "4":
                self.group = 32 if inputs % 128 else 128
                self.packed, self.scales, stands_for = packing.quantize_groups(dense, self.group, 4)
            case _:
                self.group = 32
                self.packed, self.scales, stands_for = packing.quantize_groups(dense, self.group, 8)
        x, gain = random(rows, inputs, dtype=dtype), random(inputs, dtype=dtype)
        norm, paired = extras in ("norm", "all"), extras == "paired"
        expected = x.double()
        if norm:
            product = (x.float() * gain.float()).to(dtype).double()
            expected = product * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-5)
        expected = expected @ stands_for.double().T
        bias = residual = None
        activate = 3 if extras == "all" else 0
        self.made = outputs // 2 if paired else outputs
        if extras == "all":
            bias, residual = random(outputs, dtype=dtype), random(rows, self.made, dtype=dtype)
            expected = activation(activate, expected + bias.double()) + residual.double()
        if paired:
            gates, ups = expected[:, : self.made], expected[:, self.made :]
            expected = torch.nn.functional.silu(gates) * ups
        self.paired = paired
        self.expected = expected
        self.given = (x, gain, bias, residual)
        self.options = {
            "ACTIVATION": number, "OUTPUT": number, "NORM": int(norm), "PAIRED": int(paired),
            "ACTIVATE": activate,
        }  # fmt: skip

    @property
    def row_chunks(self) -> int:
        return packing.row_chunks(self.kind, self.inputs, self.group)

    def few_rows(self, threads: int, taken: int) -> dict[str, object]:
        """Options of the kernels for few rows."""
        return self.options | {
            "INPUTS": self.inputs, "WEIGHT": self.kind, "GROUP": self.group, "TAKEN": taken, "THREADS": threads,
            "EVEN": int(self.outputs % taken == 0),
            "ROWS": next(most for most in (1, 2, 4, 8) if most >= self.rows), "BLOCKS": 1,
            "CHUNKS": -(-self.row_chunks // threads),
        }  # fmt: skip

    def out(self) -> torch.Tensor:
        return poison(self.rows, self.made, dtype=DTYPES[self.number])

    def check(self, out: torch.Tensor) -> None:
        assert relative_error(out, self.expected) < CLOSE[self.number]


EXTRAS = ["plain", "norm", "paired", "all"]


@pytest.mark.parametrize("number", ["bf16", "fp16"])
@pytest.mark.parametrize("weight", ["16", "8", "80", "4", "8g"])
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs"),
    [(1, 4096, 4096), (3, 1000, 576), (6, 512, 14336), (5, 34, 64), (2, 96, 1056)],
)
@pytest.mark.parametrize("extras", EXTRAS)
def test_linear(
    number: str, weight: str, rows: int, outputs: int, inputs: int, extras: str
) -> None:
    case = LinearCase(number, weight, rows, outputs, inputs, extras)
    threads, taken = 256, 2 if rows > 4 else 4
    kernel = Kernel("gemv.cu", **case.few_rows(threads, taken))
    grid = min(-(-outputs // taken), multiprocessors() * 2)
    out = case.out()
    kernel(grid, threads, case.packed, case.scales, *case.given, out, rows, outputs, 1e-5)
    case.check(out)


@pytest.mark.parametrize("weight", ["16", "8", "80", "4", "8g"])
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs", "taken", "threads", "grid"),
    [
        (1, 1600, 1056, 16, 256, 3),  # a second batch of turns
        (2, 630, 512, 16, 64, 2),  # some blocks have no last turn, and it is not full
        (8, 528, 64, 4, 32, 1),  # batches of one turn or two
        (4, 260, 4096, 8, 128, 11),
        (3, 94, 576, 2, 64, 47),  # a turn for each block
    ],
)
@pytest.mark.parametrize("extras", ["paired", "all"])
def test_linear_in_turns(
    weight: str,
    rows: int,
    outputs: int,
    inputs: int,
    taken: int,
    threads: int,
    grid: int,
    extras: str,
) -> None:
    case = LinearCase("bf16", weight, rows, outputs, inputs, extras)
    kernel = Kernel("gemv.cu", **case.few_rows(threads, taken))
    out = case.out()
    kernel(grid, threads, case.packed, case.scales, *case.given, out, rows, outputs, 1e-5)
    case.check(out)


@pytest.mark.parametrize("number", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs", "slice", "slices", "warps", "stages", "grid"),
    [
        (8, 4096, 4096, 256, 2, 8, 3, 132),
        (5, 1000, 1024, 128, 1, 4, 2, 7),
        (3, 34, 3584, 256, 2, 7, 3, 2),
        (8, 96, 14336, 128, 2, 8, 4, 3),
        (6, 48, 1536, 128, 1, 4, 5, 1),
        (15, 200, 4096, 256, 1, 8, 2, 5),
    ],
)
@pytest.mark.parametrize("extras", EXTRAS)
def test_linear_of_some_rows(
    number: str,
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
    case = LinearCase(number, "16", rows, outputs, inputs, extras)
    kernel = Kernel(
        "small_m_gemm.cu", **case.options, TILES=-(-rows // 8), INPUTS=inputs, SLICE=slice,
        SLICES=slices, STAGES=stages, TURNS=-(-outputs // 16 // grid), WARPS=warps, BLOCKS=1,
    )  # fmt: skip
    out = case.out()
    kernel(
        grid, warps * 32, case.packed, *case.given, out, rows, outputs, 1e-5,
        shared=warps * stages * 16 * (slice * 2 + 64),
    )  # fmt: skip
    case.check(out)


@pytest.mark.parametrize("weight", [16, 8, 80])
def test_linear_of_nan_is_nan(weight: int) -> None:
    dense, x = random(64, 256, scale=0.1), random(1, 256, dtype=torch.bfloat16)
    x[0, 77] = math.nan
    quantize = {
        16: lambda w: (w.bfloat16(), None, w),
        8: packing.quantize_rows,
        80: packing.quantize_e4m3,
    }
    packed, scales, _ = quantize[weight](dense)
    out = torch.zeros(1, 64, device="cuda", dtype=torch.bfloat16)
    kernel = Kernel(
        "gemv.cu", ACTIVATION="bf16", OUTPUT="bf16", WEIGHT=weight, ROWS=1, TAKEN=4,
        THREADS=128, CHUNKS=1, BLOCKS=1, INPUTS=256,
    )  # fmt: skip
    kernel(16, 128, packed, scales, x, None, None, None, out, 1, 64, 1e-5)
    assert out.isnan().all()


def paged_cache(
    lengths: list[int], kv_heads: int, head: int, block: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys and values of shape blocks, kv heads, tokens, numbers, in shuffled blocks; unused ones are NaN."""
    needed = [-(-length // block) for length in lengths]
    order = torch.randperm(sum(needed) + 3, device="cuda").to(torch.int32)
    tables = torch.zeros(len(lengths), max([*needed, 1]) + 1, dtype=torch.int32, device="cuda")
    keys = torch.full(
        (sum(needed) + 3, kv_heads, block, head), math.nan, device="cuda", dtype=dtype
    )
    values = keys.clone()
    taken = 0
    for row, (length, count) in enumerate(zip(lengths, needed, strict=True)):
        tables[row, :count] = order[taken : taken + count]
        taken += count
        for token in range(0, length, block):
            live = min(block, length - token)
            where = int(tables[row, token // block])
            keys[where, :, :live] = random(kv_heads, live, head, dtype=dtype)
            values[where, :, :live] = random(kv_heads, live, head, dtype=dtype)
    return keys, values, tables


def dense_of(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """One sequence's tokens: kv heads, tokens, numbers."""
    blocks = cache[table.long()].permute(1, 0, 2, 3).flatten(1, 2)
    return blocks[:, :length].double()


@pytest.mark.parametrize("number", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head"), [(32, 8, 128), (9, 3, 64), (8, 1, 128), (32, 2, 64), (4, 4, 256)]
)
@pytest.mark.parametrize(("splits", "cluster"), [(1, 0), (5, 0), (8, 1)])
def test_attention_decode(
    number: str, heads: int, kv_heads: int, head: int, splits: int, cluster: int
) -> None:
    if cluster and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters below compute capability 9.0")
    torch.manual_seed(heads)
    dtype, block = DTYPES[number], 32
    lengths = [1, 17, 700, 0, 333, 64]
    keys, values, tables = paged_cache(lengths, kv_heads, head, block, dtype)
    q = random(len(lengths), heads * head, dtype=dtype)
    out = poison(len(lengths), heads * head, dtype=dtype)
    share = heads // kv_heads
    tiles = -(-share // 8)
    kernel = Kernel(
        "attention_decode.cu", NUMBER=number, HEAD=head, HEAD_TILES=tiles,
        WARPS=2 if head * tiles > 128 else 4, BLOCKS=2, CLUSTER=cluster,
    )  # fmt: skip
    parts = poison(len(lengths) * kv_heads * splits * 8 * tiles * (head + 2))
    counters = torch.zeros(len(lengths) * kv_heads, dtype=torch.int32, device="cuda")
    for _ in range(2):  # the second time shows that the counters are left as they were found
        kernel(
            (splits, kv_heads, len(lengths)), 64 if head * tiles > 128 else 128, q, keys, values, tables,
            torch.tensor(lengths, dtype=torch.int32, device="cuda"), None, out, parts, counters,
            heads, kv_heads, block, tables.shape[1], ctypes.c_longlong(kv_heads * block * head),
            block * head, head, head**-0.5, cluster=splits if cluster else 0,
        )  # fmt: skip
    for row, length in enumerate(lengths):
        got = out[row].view(heads, head)
        if length == 0:
            assert (got == 0).all()
            continue
        k, v = dense_of(keys, tables[row], length), dense_of(values, tables[row], length)
        query = q[row].view(kv_heads, share, head).double()
        weights = torch.softmax(query @ k.transpose(1, 2) * head**-0.5, -1)
        assert relative_error(got, (weights @ v).reshape(heads, head)) < CLOSE[number]


def turned_by(
    x: torch.Tensor, table: torch.Tensor | None, position: int, neighbors: int
) -> torch.Tensor:
    """Heads of numbers, the first of which turn as the table says."""
    x = x.clone()
    if table is None:
        return x
    turned = table.shape[1]
    cosines, sines = table[position].double().split(turned // 2)
    first = x[:, 0:turned:2] if neighbors else x[:, : turned // 2]
    second = x[:, 1:turned:2] if neighbors else x[:, turned // 2 : turned]
    a, b = first * cosines - second * sines, second * cosines + first * sines
    x[:, :turned] = torch.stack([a, b], 2).flatten(1) if neighbors else torch.cat([a, b], 1)
    return x


@pytest.mark.parametrize("number", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head"), [(32, 8, 128), (9, 3, 64), (4, 4, 192), (32, 2, 64), (4, 4, 256)]
)
@pytest.mark.parametrize(
    ("neighbors", "turns", "norms", "splits", "cluster"),
    [(0, 1, 0, 1, 0), (1, 1, 1, 5, 0), (0, 1, 1, 8, 1), (0, 0, 0, 2, 1)],
)
def test_attention_decode_of_new_tokens(
    number: str,
    heads: int,
    kv_heads: int,
    head: int,
    neighbors: int,
    turns: int,
    norms: int,
    splits: int,
    cluster: int,
) -> None:
    """The last token of each sequence is not in the cache yet: it is turned and written first."""
    if cluster and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters below compute capability 9.0")
    torch.manual_seed(heads + head)
    dtype, block = DTYPES[number], 32
    lengths = [1, 17, 700, 0, 333, 64]
    keys, values, tables = paged_cache(lengths, kv_heads, head, block, dtype)
    places = [
        (int(tables[row, (length - 1) // block]), slice(None), (length - 1) % block)
        for row, length in enumerate(lengths)
        if length
    ]
    for where in places:
        keys[where] = values[where] = math.nan
    qkv = random(len(lengths), (heads + 2 * kv_heads) * head, dtype=dtype)
    table = random(700, head) if turns else None
    gains = [random(head, dtype=dtype) for _ in range(2)] if norms else [None, None]
    out = poison(len(lengths), heads * head, dtype=dtype)
    share = heads // kv_heads
    tiles = -(-share // 8)
    warps = 2 if head * tiles > 128 else 4
    kernel = Kernel(
        "attention_decode.cu", NUMBER=number, HEAD=head, HEAD_TILES=tiles, WARPS=warps, BLOCKS=2,
        CLUSTER=cluster, SETTLED=1, ROTATES=1, NEIGHBORS=neighbors,
    )  # fmt: skip
    parts = poison(len(lengths) * kv_heads * splits * 8 * tiles * (head + 2))
    counters = torch.zeros(len(lengths) * kv_heads, dtype=torch.int32, device="cuda")
    kernel(
        (splits, kv_heads, len(lengths)), warps * 32, qkv, keys, values, tables,
        torch.tensor(lengths, dtype=torch.int32, device="cuda"), None, out, parts, counters, heads,
        kv_heads, block, tables.shape[1], ctypes.c_longlong(kv_heads * block * head), block * head,
        head, head**-0.5, table, *gains, 1e-6, cluster=splits if cluster else 0,
    )  # fmt: skip
    written = iter(places)
    for row, length in enumerate(lengths):
        got = out[row].view(heads, head)
        if length == 0:
            assert (got == 0).all()
            continue
        split = qkv[row].double().view(heads + 2 * kv_heads, head)
        q, k, v = split.split([heads, kv_heads, kv_heads])
        if norms:
            q, k = rms(q, gains[0], 1e-6), rms(k, gains[1], 1e-6)
        q, k = (turned_by(each, table, length - 1, neighbors) for each in (q, k))
        where = next(written)
        assert relative_error(keys[where], k) < CLOSE[number]
        assert torch.equal(values[where].double(), v)
        k, v = dense_of(keys, tables[row], length), dense_of(values, tables[row], length)
        query = q.to(dtype).double().view(kv_heads, share, head)
        weights = torch.softmax(query @ k.transpose(1, 2) * head**-0.5, -1)
        assert relative_error(got, (weights @ v).reshape(heads, head)) < CLOSE[number]


WIDE = {"bf16": 8, "fp16": 8, "float": 4}
"""Numbers that are moved at once where rows are aligned."""


@pytest.mark.parametrize("number", ["bf16", "float"])
@pytest.mark.parametrize(
    ("moved", "head"), [("wide", 128), ("wide", 80), ("one", 128), ("one", 67)]
)
@pytest.mark.parametrize(("turning", "norms"), [("halves", 0), ("neighbors", 1), ("none", 1)])
def test_rope_write(number: str, moved: str, head: int, turning: str, norms: int) -> None:
    dtype, heads, kv_heads, block = DTYPES[number], 6, 2, 16
    neighbors = int(turning == "neighbors")
    turned = {"halves": head // 2 * 2, "neighbors": 64, "none": 0}[turning]
    vector = WIDE[number] if moved == "wide" else 1
    lanes = min(32, 1 << (-(-head // (2 * vector)) - 1).bit_length())
    slots = [5, -1, 47, 16]
    positions = torch.tensor([3, 0, 40, 511], dtype=torch.int32, device="cuda")
    qkv = random(4, (heads + 2 * kv_heads) * head, dtype=dtype)
    table = random(512, turned) if turned else None
    gains = [random(head, dtype=dtype) for _ in range(2)] if norms else [None, None]
    keys, values = (poison(3, kv_heads, block, head, dtype=dtype) for _ in range(2))
    q_out = poison(4, heads * head, dtype=dtype)
    kernel = Kernel("rope_write.cu", NUMBER=number, CACHE=number, NEIGHBORS=neighbors,
                    VECTOR=vector, LANES=lanes, THREADS=64)  # fmt: skip
    kernel(
        (4, -(-(heads + 2 * kv_heads) * lanes // 64)), 64, qkv, positions,
        torch.tensor(slots, dtype=torch.int32, device="cuda"), table,
        keys, values, q_out, *gains, heads, kv_heads, head, turned, block,
        ctypes.c_longlong(kv_heads * block * head), block * head, head, 1e-6,
    )  # fmt: skip
    split = qkv.double().view(4, heads + 2 * kv_heads, head)

    for row, slot in enumerate(slots):
        if slot < 0:
            continue
        q, k, v = split[row].split([heads, kv_heads, kv_heads])
        if norms:
            q, k = rms(q, gains[0], 1e-6), rms(k, gains[1], 1e-6)
        position = int(positions[row])
        assert (
            relative_error(q_out[row].view(heads, head), turned_by(q, table, position, neighbors))
            < CLOSE[number]
        )
        where = (slot // block, slice(None), slot % block)
        assert relative_error(keys[where], turned_by(k, table, position, neighbors)) < CLOSE[number]
        assert torch.equal(values[where].double(), v)
    assert int(keys.isnan().all(-1).sum()) == keys[..., 0].numel() - 3 * kv_heads


@pytest.mark.parametrize("number", ["bf16", "fp16", "float"])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("width", [4096, 577, 8])
@pytest.mark.parametrize("with_residual", [False, True])
def test_normalize(number: str, layer: int, width: int, with_residual: bool) -> None:
    dtype = DTYPES[number]
    vector = next(v for v in ((4, 1) if number == "float" else (8, 1)) if width % v == 0)
    x, weight = random(5, width, dtype=dtype), random(width, dtype=dtype)
    bias = random(width, dtype=dtype) if layer else None
    residual = random(5, width, dtype=dtype) if with_residual else None
    total = (x.float() + residual.float()).to(dtype) if residual is not None else x
    if layer:
        expected = torch.nn.functional.layer_norm(
            total.double(), [width], weight.double(), bias.double(), 1e-5
        )
    else:
        expected = rms(total, weight, 1e-5)
    out = poison(5, width, dtype=dtype)
    threads = 32 * -(-width // (vector * 128))
    kernel = Kernel(
        "normalize.cu", NUMBER=number, LAYER=layer, CHUNKS=4, VECTOR=vector, THREADS=threads
    )
    kernel(5, threads, x, residual, weight, bias, out, width, 1e-5)
    assert relative_error(out, expected) < CLOSE[number]
    if residual is not None:
        assert torch.equal(residual, total)


@pytest.mark.parametrize("number", ["bf16", "fp16", "float"])
@pytest.mark.parametrize("width", [4096, 577, 1])
@pytest.mark.parametrize("chunks", [0, 4])
@pytest.mark.parametrize("logarithm", [0, 1])
def test_softmax(number: str, width: int, chunks: int, logarithm: int) -> None:
    dtype = DTYPES[number]
    vector = next(v for v in ((4, 1) if number == "float" else (8, 1)) if width % v == 0)
    x = random(7, width, dtype=dtype, scale=4.0)
    if width > 1:
        x[1, width // 2] = math.nan
        x[2, : width - 1] = -math.inf
    out = poison(7, width, dtype=dtype)
    threads = 32 * -(-width // (vector * 128))
    kernel = Kernel(
        "softmax.cu", NUMBER=number, LOGARITHM=logarithm, CHUNKS=chunks, VECTOR=vector, THREADS=threads
    )  # fmt: skip
    kernel(7, threads, x, out, width)
    function = torch.log_softmax if logarithm else torch.softmax
    torch.testing.assert_close(
        out.double(), function(x.double(), -1), rtol=CLOSE[number], atol=1e-6, equal_nan=True
    )


@pytest.mark.parametrize("number", ["bf16", "float"])
@pytest.mark.parametrize("half", [1536, 77])
def test_swiglu(number: str, half: int) -> None:
    dtype = DTYPES[number]
    vector = next(v for v in ((4, 1) if number == "float" else (8, 1)) if half % v == 0)
    gate_up, out = random(3, 2 * half, dtype=dtype), poison(3, half, dtype=dtype)
    kernel = Kernel("swiglu.cu", NUMBER=number, VECTOR=vector)
    kernel((-(-half // (vector * 128)), 3), 128, gate_up, out, half)
    gate, up = gate_up.double().split(half, 1)
    assert relative_error(out, torch.nn.functional.silu(gate) * up) < CLOSE[number]


@pytest.mark.parametrize(("width", "unit"), [(576, 16), (34, 4), (33, 2)])
def test_gather_rows(width: int, unit: int) -> None:
    x, out = random(50, width, dtype=torch.bfloat16), poison(6, width, dtype=torch.bfloat16)
    rows = torch.tensor([49, -1, 0, 50, -3, -4], dtype=torch.int32, device="cuda")
    chosen = torch.tensor([11, 7], dtype=torch.int32, device="cuda")
    kernel = Kernel("gather_rows.cu", UNIT=unit)
    kernel((-(-width * 2 // (unit * 64)), 6), 64, x, rows, chosen, out, width * 2, 50, 2)
    assert torch.equal(out[0], x[49])
    assert torch.equal(out[2], x[0])
    assert torch.equal(out[4], x[7])
    assert (out[[1, 3, 5]] == 0).all()


def test_penalize() -> None:
    rows, vocabulary = 3, 1001
    scores = random(rows, vocabulary)
    counts = torch.randint(0, 3, (rows, vocabulary), device="cuda", dtype=torch.int32)
    prompt = torch.randint(0, 2, (rows, vocabulary), device="cuda", dtype=torch.uint8)
    penalties = [torch.rand(rows, device="cuda") + 0.7 for _ in range(3)]
    repetition, presence, frequency = (p[:, None] for p in penalties)
    seen = (counts > 0) | (prompt > 0)
    lowered = torch.where(scores > 0, scores / repetition, scores * repetition)
    expected = torch.where(seen, lowered, scores) - frequency * counts - presence * (counts > 0)
    Kernel("penalize.cu", NUMBER="float")(
        (8, rows), 128, scores, counts, prompt, *penalties, vocabulary
    )
    torch.testing.assert_close(scores, expected)


def kept_tokens(row: torch.Tensor, heat: float, k: int, p: float, least: float) -> torch.Tensor:
    """Chances after min-p, top-k and top-p, in falling order, and the tokens they belong to."""
    chances, tokens = torch.softmax(row.double() / heat, 0).sort(descending=True, stable=True)
    keep = chances >= least * chances[0]
    if k:
        keep &= torch.arange(len(row), device=row.device) < k
    chances, tokens = chances[keep], tokens[keep]
    before = chances.cumsum(0) - chances
    keep = before < p * chances.sum()
    return tokens[keep], chances[keep] / chances[keep].sum()


def draw(
    scores: torch.Tensor,
    parameters: list[tuple[float, int, float, float]],
    seed: int,
    step: int,
    cluster: int,
    vector: int = 1,
):
    rows, vocabulary = scores.shape
    threads = 512 if cluster > 1 else 128
    heat, k, p, least = (
        torch.tensor(column, device="cuda") for column in zip(*parameters, strict=True)
    )
    tokens = torch.full((rows,), -7, dtype=torch.int32, device="cuda")
    logprobs, chances = poison(rows), poison(rows, vocabulary)
    number = next(name for name, dtype in DTYPES.items() if dtype == scores.dtype)
    kernel = Kernel("sample.cu", NUMBER=number, VECTOR=vector, THREADS=threads, CLUSTER=cluster)
    kernel(
        rows * cluster, threads, scores, heat.float(), k.int(), p.float(), least.float(),
        torch.full((rows,), seed, device="cuda"), torch.arange(step, step + rows, device="cuda"),
        tokens, logprobs, chances, vocabulary, cluster=cluster if cluster > 1 else 0,
    )  # fmt: skip
    return tokens, logprobs


def cluster_of(blocks: str) -> int:
    if blocks == "cluster" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no clusters below compute capability 9.0")
    return 8 if blocks == "cluster" else 1


@pytest.mark.parametrize("blocks", ["one block", "cluster"])
@pytest.mark.parametrize(
    ("number", "moved"), [("float", "wide"), ("float", "one"), ("bf16", "wide")]
)
@pytest.mark.parametrize("vocabulary", [3008, 128256])
def test_sample(blocks: str, number: str, moved: str, vocabulary: int) -> None:
    cluster = cluster_of(blocks)
    vector = WIDE[number] if moved == "wide" else 1
    vocabulary += 3 * (vector == 1)
    torch.manual_seed(vocabulary)
    scores = random(13, vocabulary, dtype=DTYPES[number], scale=3.0)
    scores[3, 5] = math.nan
    scores[4, 7] = scores[4, 700] = 40.0
    scores[5] = 0.0
    scores[6] = math.nan
    scores[7, 11] = math.inf
    cases = [(0.0, 0, 1.0, 0.0), (0.0, 5, 0.5, 0.1), (1.0, 1, 1.0, 0.0), (0.8, 0, 1.0, 0.0), (0.0, 0, 1.0, 0.0),
             (1.0, 10, 1.0, 0.0), (1.0, 0, 1.0, 0.0), (1.0, 0, 0.9, 0.0), (0.7, 40, 0.9, 0.0), (1.2, 0, 0.95, 0.05),
             (1.0, 0, 1.0, 0.1), (1.0, 3, 0.2, 0.0), (8.0, 0, 0.9, 0.0)]  # fmt: skip
    first_best = scores.float().cpu().numpy().argmax(1)
    for step in range(8):
        tokens, logprobs = draw(scores, cases, 1234, step, cluster, vector)
        again, _ = draw(scores, cases, 1234, step, cluster, vector)
        assert torch.equal(tokens, again)
        assert tokens[:3].tolist() == first_best[:3].tolist()
        assert int(tokens[4]) == 7
        assert int(tokens[6]) == -1
        assert int(tokens[7]) == 11
        for row in (3, 5, 8, 9, 10, 11, 12):
            clean = scores[row].float().nan_to_num(nan=-math.inf)
            kept, _ = kept_tokens(clean, *cases[row])
            assert int(tokens[row]) in kept.tolist()
            expected = torch.log_softmax(clean.double(), 0)[int(tokens[row])]
            assert float(logprobs[row]) == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("blocks", ["one block", "cluster"])
@pytest.mark.parametrize("vocabulary", [1, 3, 8, 33, 1000, 4104])
def test_sample_takes_the_first_of_the_best(blocks: str, vocabulary: int) -> None:
    cluster, vector = cluster_of(blocks), 4 if vocabulary % 4 == 0 else 1
    torch.manual_seed(vocabulary)
    scores = torch.randint(0, 9, (7, vocabulary), device="cuda").float()
    scores[1, 0] = math.nan
    scores[2] = -math.inf
    scores[3] = math.nan
    scores[4] = -math.inf
    scores[4, 0] = math.nan
    scores[5, vocabulary // 2 :] = math.inf
    tokens, _ = draw(scores, [(0.0, 0, 1.0, 0.0)] * 7, 1, 1, cluster, vector)
    for row, token in zip(scores.tolist(), tokens.tolist(), strict=True):
        real = [score for score in row if not math.isnan(score)]
        assert token == (row.index(max(real)) if real else -1)


@pytest.mark.parametrize("top_k", [0, 5])
def test_sample_keeps_the_best_whatever_min_p_is(top_k: int) -> None:
    scores = random(4, 1000, scale=2.0)
    tokens, _ = draw(
        scores, [(1.0, top_k, 1.0, least) for least in (1.0, 1.5, 9.0, math.nan)], 7, 1, 1, 4
    )
    assert tokens.tolist() == scores.argmax(1).tolist()


@pytest.mark.parametrize("case", [(1.0, 0, 1.0, 0.0), (0.9, 20, 0.8, 0.01)])
def test_sample_draws_by_the_chances(case: tuple[float, int, float, float]) -> None:
    torch.manual_seed(5)
    row = random(300, scale=2.0)
    rows = 20000
    tokens, _ = draw(row.expand(rows, 300).contiguous(), [case] * rows, 99, 0, 1, 4)
    kept, chances = kept_tokens(row, *case)
    counts = torch.bincount(tokens.long(), minlength=300)
    assert int(counts.sum()) == int(counts[kept].sum())
    expected = chances * rows
    statistic = float(
        ((counts[kept] - expected) ** 2 / expected.clamp_min(1e-9))[expected > 5].sum()
    )
    degrees = int((expected > 5).sum())
    assert statistic < degrees + 6 * math.sqrt(2 * degrees)


def reference_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Rows x heads x numbers against kv heads x tokens x numbers; the rows are the last tokens."""
    rows, heads, head = q.shape
    share = heads // k.shape[0]
    scores = torch.einsum("rhd,htd->hrt", q.double(), k.repeat_interleave(share, 0)) * head**-0.5
    if causal:
        ahead = torch.arange(k.shape[1], device="cuda")[None] > (
            torch.arange(rows, device="cuda")[:, None] + k.shape[1] - rows
        )
        scores = scores.masked_fill(ahead, -math.inf)
    return torch.einsum("hrt,htd->rhd", torch.softmax(scores, -1), v.repeat_interleave(share, 0))


PREFILLS = [(False, 64), (False, 128), (False, 256), (True, 64), (True, 128)]
"""For any GPU, or for Hopper alone; and the numbers of a head."""


def for_hopper(hopper: bool) -> None:
    if hopper and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("for compute capability 9.0 alone")


@pytest.mark.parametrize(
    ("number", "block", "bundle"), [("bf16", 16, 1), ("fp16", 48, 3), ("bf16", 256, 3)]
)
@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_prefill(
    number: str, block: int, bundle: int, hopper: bool, head: int, causal: int
) -> None:
    for_hopper(hopper)
    torch.manual_seed(head)
    dtype, heads, kv_heads = DTYPES[number], 6, 2
    chunks = [(1, 1), (300, 300), (70, 333), (0, 0), (129, 1000), (128, 256)]
    lengths = [length for _, length in chunks]
    starts = torch.tensor([0, *(rows for rows, _ in chunks)]).cumsum(0).int().cuda()
    keys, values, tables = paged_cache(lengths, kv_heads, head, block, dtype)
    total = int(starts[-1])
    q, out = random(total, heads, head, dtype=dtype), poison(total, heads, head, dtype=dtype)
    paged = tables, starts, torch.tensor(lengths, dtype=torch.int32, device="cuda")
    launch = prefill(q, keys, values, out, 300, paged, hopper, causal, bundle)
    launch()
    for s, (rows, length) in enumerate(chunks):
        if not rows:
            continue
        mine = slice(int(starts[s]), int(starts[s]) + rows)
        k, v = dense_of(keys, tables[s], length), dense_of(values, tables[s], length)
        expected = reference_attention(q[mine], k, v, bool(causal))
        assert relative_error(out[mine], expected) < CLOSE[number]
    first = out.clone()
    out.fill_(math.nan)
    launch()
    assert torch.equal(out, first), "equal inputs give equal bits, and no launch disturbs the next"


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(
    ("rows", "tokens"), [(1, 1), (127, 127), (64, 129), (1000, 1000), (200, 2055)]
)
def test_attention_prefill_of_a_dense_cache(
    hopper: bool, head: int, causal: int, rows: int, tokens: int
) -> None:
    for_hopper(hopper)
    torch.manual_seed(rows)
    q, out = (make(rows, 8, head, dtype=torch.bfloat16) for make in (random, poison))
    # Scores that grow along the row, so that sums are lowered again and again.
    k, v = (random(tokens, 2, head, dtype=torch.bfloat16) for _ in range(2))
    k *= torch.linspace(8, 0, tokens, device="cuda").bfloat16()[:, None, None]
    by_head = [one.transpose(0, 1)[None] for one in (k, v)]
    prefill(q, *by_head, out, rows, hopper=hopper, causal=causal, bundle=2)()
    expected = reference_attention(q, *(one[0].double() for one in by_head), bool(causal))
    assert relative_error(out, expected) < CLOSE["bf16"]


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
def test_attention_prefill_keeps_what_is_not_a_number(hopper: bool, head: int) -> None:
    for_hopper(hopper)
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
def test_attention_prefill_of_many_sequences(hopper: bool, head: int) -> None:
    for_hopper(hopper)
    torch.manual_seed(3)
    source = torch.Generator().manual_seed(4)
    kept = torch.randint(0, 300, (75,), generator=source).tolist()
    # Single tokens, whole prompts, nothing at all; one long chunk far from the first.
    new = [(1, length, 0, min(length, 5))[i % 4] for i, length in enumerate(kept)]
    kept[70], new[70] = 700, 500
    lengths = [max(length, rows) for length, rows in zip(kept, new, strict=True)]
    new = [min(rows, length) for rows, length in zip(new, lengths, strict=True)]
    starts = torch.tensor([0, *new]).cumsum(0).int().cuda()
    keys, values, tables = paged_cache(lengths, 2, head, 16, torch.bfloat16)
    total = int(starts[-1])
    q, out = (make(total, 8, head, dtype=torch.bfloat16) for make in (random, poison))
    paged = tables, starts, torch.tensor(lengths, dtype=torch.int32, device="cuda")
    prefill(q, keys, values, out, total, paged, hopper, bundle=4)()
    for s, (rows, length) in enumerate(zip(new, lengths, strict=True)):
        if rows:
            mine = slice(int(starts[s]), int(starts[s]) + rows)
            k, v = (dense_of(one, tables[s], length) for one in (keys, values))
            assert relative_error(out[mine], reference_attention(q[mine], k, v, True)) < 6e-3, s


@pytest.mark.parametrize(("hopper", "head"), PREFILLS)
def test_a_row_of_attention_prefill_does_not_depend_on_its_neighbors(
    hopper: bool, head: int
) -> None:
    for_hopper(hopper)
    torch.manual_seed(5)
    q = random(700, 8, head, dtype=torch.bfloat16)
    k, v = (random(1, 2, 700, head, dtype=torch.bfloat16) for _ in range(2))
    k *= torch.linspace(8, 0, 700, device="cuda").bfloat16()[:, None]
    whole = poison(700, 8, head, dtype=torch.bfloat16)
    prefill(q, k, v, whole, 700, hopper=hopper)()
    for rows in (1, 7, 130, 555):
        part = poison(rows, 8, head, dtype=torch.bfloat16)
        prefill(q[-rows:].contiguous(), k, v, part, rows, hopper=hopper, bundle=4)()
        assert torch.equal(part, whole[-rows:])
