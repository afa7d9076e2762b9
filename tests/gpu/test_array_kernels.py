"""The kernels of arrays, generated from the table of expressions, against NumPy."""

import ctypes
import math
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels' memory is held by PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from kernel_harness import Kernel, find_source  # noqa: E402

pytestmark = pytest.mark.gpu

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "i64",
    "uint8": "u8",
    "bool": "bool",
}
UNARY = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p",
         "log2", "sin", "sinh", "sqrt", "tan", "tanh"]  # fmt: skip
NUMPY = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
         "atanh": "arctanh", "atan2": "arctan2", "pow": "power", "abs": "absolute"}  # fmt: skip


FORMATS = {"float32": 0, "int32": 3, "int64": 4, "uint8": 5, "float64": 14, "bool": 15}


class Layout(ctypes.Structure):
    """As in elementwise.cu."""

    _fields_ = (
        ("shape", ctypes.c_longlong * 8),
        ("strides", (ctypes.c_longlong * 8) * 4),
        ("numbers", ctypes.c_ulonglong * 3),
        ("formats", ctypes.c_ubyte * 4),
        ("axes", ctypes.c_int),
    )


def apply(expression: str, inputs: list[np.ndarray], output: str, dense: bool) -> np.ndarray:
    """EXPRESSION of arrays that broadcast together."""
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    kind = str(inputs[0].dtype)
    held = [torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in inputs]
    out = torch.empty(shape, dtype=getattr(torch, output), device="cuda")
    layout = Layout(axes=len(shape))
    layout.formats[3] = FORMATS[output]
    for i, x in enumerate(inputs):
        layout.formats[i] = FORMATS[kind]
        strides = np.broadcast_to(np.ascontiguousarray(x), shape).strides
        for axis, stride in enumerate(strides):
            layout.strides[i][axis] = stride // x.itemsize
    for axis, size in enumerate(shape):
        layout.shape[axis] = size
        layout.strides[3][axis] = math.prod(shape[axis + 1 :])
    together = 4 if dense else 1
    padded = [*held, *[None] * (3 - len(held))]
    made = []
    # The kernel of small arrays, and the one that is compiled for these.
    types = {"TYPE0": C_TYPES[kind], "RESULT": C_TYPES[output], "NUMBERS": 0, "DENSE": int(dense),
             "SAME": 0, "TOGETHER": together}  # fmt: skip
    for options, each in (({}, 1), (types, together)):
        kernel = Kernel("elementwise.cu", EXPRESSION=expression, INPUTS=len(inputs),
                        COMPUTED=C_TYPES[kind], INDEX="u32", **options)  # fmt: skip
        blocks = -(-out.numel() // (each * 128))
        out.view(torch.uint8).fill_(0xA5)
        kernel(blocks, 128, *padded, out, ctypes.c_longlong(out.numel()), layout)
        made.append(out.cpu().numpy().copy())
    np.testing.assert_array_equal(*made)
    return made[1]


def close(got: np.ndarray, expected: np.ndarray, least: float = 1e-30) -> None:
    tolerance = 5e-6 if got.dtype == np.float32 else 1e-13
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=least)
    else:
        np.testing.assert_array_equal(got, expected)


def special(kind: str) -> np.ndarray:
    """Random numbers, and those that go wrong easily."""
    generator = np.random.default_rng(3)
    odd = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, math.inf, -math.inf, math.nan, 1e-30, 87.0]
    return np.concatenate([odd, generator.standard_normal(500) * 3]).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", [*UNARY, "abs", "ceil", "floor", "trunc", "round", "sign", "negative", "square",
                                  "isnan", "isinf", "isfinite", "signbit", "reciprocal"])  # fmt: skip
def test_unary(kind: str, name: str) -> None:
    own = name + "_" if re.search(rf"[( ]{name}_[(,]", TABLE) or name in UNARY else name
    x = special(kind)
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(x)
    got = apply(f"{own}(a0)", [x], "bool" if expected.dtype == bool else kind, dense=True)
    close(got, expected)


TABLE = find_source("expressions.cuh").read_text()
BINARY_FLOAT = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "atan2": "atan2_",
                "copysign": "copysign_", "hypot": "hypot_", "nextafter": "nextafter_", "logaddexp": "logaddexp",
                "maximum": "maximum", "minimum": "minimum", "pow": "pow_", "remainder": "remainder_",
                "floor_divide": "floor_divide", "equal": "equal", "not_equal": "not_equal", "less": "less",
                "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal"}  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", list(BINARY_FLOAT))
def test_binary(kind: str, name: str) -> None:
    x, y = special(kind)[:, None], special(kind)[None, :37]
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(x, y)
    output = "bool" if expected.dtype == bool else kind
    got = apply(f"{BINARY_FLOAT[name]}(a0,a1)", [x, y], output, dense=False)
    # The sum of two numbers of opposite sign has no more digits than they have.
    least = {"float32": 1e-6, "float64": 1e-14}[kind] if name == "logaddexp" else 1e-30
    close(got, expected, least)


BINARY_INTEGER = ["add", "subtract", "multiply", "floor_divide", "remainder", "bitwise_and", "bitwise_or",
                  "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "maximum", "less", "pow"]  # fmt: skip


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_binary_of_integers(kind: str, name: str) -> None:
    generator = np.random.default_rng(4)
    low = 0 if kind == "uint8" else -100
    x = generator.integers(low, 100, (40, 3, 8)).astype(kind)
    y = generator.integers(low, 100, (3, 1)).astype(kind)
    if "shift" in name or name == "pow":
        y = np.abs(y) % 8
    own = {"remainder": "remainder_", "pow": "pow_"}.get(name, name)
    loop = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}.get(
        name, NUMPY.get(name, name)
    )
    with np.errstate(all="ignore"):
        expected = getattr(np, loop)(x, y)
    output = "bool" if expected.dtype == bool else kind
    close(apply(f"{own}(a0,a1)", [x, y], output, dense=False), expected)


def test_fused_expression() -> None:
    x, y, z = (
        np.random.default_rng(i).standard_normal((33, 7)).astype("float32") for i in range(3)
    )
    got = apply("multiply(add(a0,a1),tanh_(a2))", [x, y, z], "float32", dense=True)
    close(got, (x + y) * np.tanh(z))


@pytest.mark.parametrize("shape", [(3, 5000, 1), (2, 70, 33), (1, 100004, 1), (4, 1, 1)])
@pytest.mark.parametrize("join", ["add", "maximum", "multiply"])
def test_reduce(shape: tuple[int, int, int], join: str) -> None:
    outer, length, inner = shape
    x = np.random.default_rng(5).uniform(0.999, 1.001, shape).astype("float32")
    if join == "maximum":
        x[0, length // 2, 0] = math.nan
    held = torch.from_numpy(x).cuda()
    rows = int(inner == 1)
    together = 4 if rows and length % 4 == 0 else 1
    for parts in (1, 7) if length > 100 else (1,):
        out = torch.full((outer, parts, inner), math.nan, device="cuda")
        kernel = Kernel("reduce.cu", TYPE="float", LOADED="float", FIRST="a0", CENTERED=0, COMPUTED="float", JOIN=join,
                        LAST="multiply(a0,a1)", OUTPUT="float", ROWS=rows, TOGETHER=together, HELD=0)  # fmt: skip
        each = -(-length // parts // together) * together
        grid = (-(-outer // 2), parts) if rows else (-(-inner // 64) * outer, parts)
        sizes = [ctypes.c_longlong(n) for n in (outer, length, inner, parts, each)]
        kernel(grid, (128, 2) if rows else 64, held, None, out, *sizes, ctypes.c_double(1.0))
        loop = {"add": np.add, "maximum": np.maximum, "multiply": np.multiply}[join]
        got = loop.reduce(out.cpu().numpy().astype("float64"), axis=1)
        np.testing.assert_allclose(got, loop.reduce(x.astype("float64"), axis=1), rtol=2e-4)


@pytest.mark.parametrize("kept", ["held", "read twice"])
@pytest.mark.parametrize("length", [1, 33, 1000, 4096])
def test_variance(kept: str, length: int) -> None:
    x = np.random.default_rng(8).standard_normal((5, length)).astype("float32") + np.float32(1000)
    x[3, length // 2] = math.nan
    held, out = torch.from_numpy(x).cuda(), torch.full((5,), -1.0, device="cuda")
    together = 4 if length % 4 == 0 else 1
    kernel = Kernel("reduce.cu", TYPE="float", LOADED="float", FIRST="square(subtract(a0,a1))", CENTERED=2,
                    COMPUTED="float", JOIN="add", LAST="divide(a0,a1)", OUTPUT="float", ROWS=1, TOGETHER=together,
                    HELD=8 if kept == "held" else 0)  # fmt: skip
    sizes = [ctypes.c_longlong(n) for n in (5, length, 1, 1, length)]
    kernel((3, 1), (128, 2), held, None, out, *sizes, ctypes.c_double(length))
    np.testing.assert_allclose(out.cpu().numpy(), x.astype("float64").var(axis=1), rtol=1e-5)


@pytest.mark.parametrize("length", [1, 31, 5000])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_scan(length: int, exclusive: int) -> None:
    x = np.random.default_rng(6).integers(-9, 9, (3, length)).astype("int32")
    out = torch.full((3, length), -1, dtype=torch.int64, device="cuda")
    totals = torch.full((3,), -1, dtype=torch.int64, device="cuda")
    carries = torch.tensor([5, 0, -2], dtype=torch.int64, device="cuda")
    kernel = Kernel("scan.cu", TYPE="int", COMPUTED="i64", OUTPUT="i64", JOIN="add",
                    EXCLUSIVE=exclusive, TOGETHER=1 + (length % 2 == 0), THREADS=128)  # fmt: skip
    sizes = [ctypes.c_longlong(n) for n in (length, 3 * length)]
    kernel(3, 128, torch.from_numpy(x).cuda(), carries, out, totals, *sizes)
    running = x.cumsum(1, dtype="int64") + np.array([[5], [0], [-2]])
    np.testing.assert_array_equal(totals.cpu().numpy(), running[:, -1])
    np.testing.assert_array_equal(out.cpu().numpy(), running - x if exclusive else running)


SORTED = {"float32": ("u32", 0, 0x7F800000), "float64": ("u64", 0, 0x7FF0000000000000), "int64": ("u64", 1, 0),
          "uint8": ("u8", 0, 0)}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "length"), [("float32", 1000), ("int64", 5000), ("float64", 1), ("uint8", 3000)]
)
@pytest.mark.parametrize("descending", [0, 1])
def test_sort(kind: str, length: int, descending: int) -> None:
    x = (np.random.default_rng(7).standard_normal((2, length)) * 50).astype(kind)
    if kind == "float32":
        x[0, 5:9] = math.nan
    bits, signed, infinite = SORTED[kind]
    threads, each = 256, 2
    spans = -(-length // (threads * each))
    options = {"BITS": bits, "SIGNED": signed, "INFINITE": infinite, "PLACES": 1,
               "THREADS": threads}  # fmt: skip
    told = (length, 255 * descending)
    held = torch.from_numpy(x).cuda()
    order = torch.argsort(torch.from_numpy(x), dim=1, stable=True, descending=bool(descending))
    expected = np.take_along_axis(x, order.numpy(), 1)
    # In shared memory, and in as many passes as an element has bytes.
    values, numbers = torch.zeros_like(held), torch.full(held.shape, -1, device="cuda")
    for together in (1, 2):
        each_row = -(-length * together // threads)
        if each_row * threads > 8192:
            continue
        values.zero_()
        numbers.fill_(-1)
        kernel = Kernel("sort.cu", "sort_rows", EACH=each_row, **options)
        rows = ctypes.c_ulonglong(2)
        kernel(2 // together, threads, held, values, numbers, rows, *told, together)
        np.testing.assert_array_equal(numbers.cpu().numpy(), order.numpy())
        np.testing.assert_array_equal(values.cpu().numpy(), expected)
    count, move = (
        Kernel("sort.cu", entry, EACH=each, **options) for entry in ("sort_count", "sort_move")
    )
    counts = torch.zeros(2, x.itemsize, 256, dtype=torch.int32, device="cuda")
    count(2 * 3, threads, held, counts, *told, 3)
    np.testing.assert_array_equal(counts.sum(2).cpu().numpy(), length)
    starts = (counts.cumsum(2) - counts).to(torch.int32)
    places = None
    for shift in range(0, 8 * x.itemsize, 8):
        shared = torch.zeros(2 * spans * 256 + 1, dtype=torch.int32, device="cuda")
        values, moved = torch.zeros_like(held), torch.zeros(held.shape, dtype=torch.int32).cuda()
        numbers = torch.full(held.shape, -1, device="cuda")
        pointers = (held, places, starts, shared, values, moved, numbers)
        move(2 * spans, threads, *pointers, *told, spans, shift)
        held, places = values, moved
    np.testing.assert_array_equal(numbers.cpu().numpy(), order.numpy())
    np.testing.assert_array_equal(places.cpu().numpy(), order.numpy())
    np.testing.assert_array_equal(held.cpu().numpy(), expected)


@pytest.mark.parametrize("count", [1, 2048, 70_001])
def test_compact(count: int) -> None:
    flags = np.random.default_rng(9).integers(0, 3, count + 1) == 0
    held = torch.from_numpy(flags).cuda()
    for begin in (0, 1):
        # The second time not aligned.
        chosen = np.flatnonzero(flags[begin:])
        spans = -(-(count + 1 - begin) // 2048)
        tallies = torch.full((spans,), -1, device="cuda")
        size = ctypes.c_longlong(count + 1 - begin)
        Kernel("compact.cu", "flag_counts", THREADS=128)(spans, 128, held[begin:], tallies, size)
        places = torch.full((chosen.size + 1,), -1, device="cuda")
        room = ctypes.c_longlong(chosen.size)
        kernel = Kernel("compact.cu", THREADS=128)
        kernel(spans, 128, held[begin:], tallies.cumsum(0), places, size, room)
        np.testing.assert_array_equal(places.cpu().numpy(), [*chosen, -1])


@pytest.mark.parametrize("distinct", [0, 1])
def test_put(distinct: int) -> None:
    indices = torch.tensor([8, -9, 3, 5, 30] if distinct else [3, 3, -6, 5, 3], device="cuda")
    kept = 4 if distinct else 5
    x = torch.randn(2, 5, 33, device="cuda")
    out = torch.full((2, 9, 33), -1.0, device="cuda")
    expected = out.cpu().numpy()
    for j, place in enumerate(indices.tolist()[:kept]):
        expected[:, place] = x[:, j].cpu().numpy()
    claims = torch.zeros(9, dtype=torch.int32, device="cuda")
    axis, count, inner, total = (ctypes.c_longlong(n) for n in (9, 5, 33, x.numel()))
    if not distinct:
        Kernel("scatter.cu", "scatter_claim", UNIT=4)(1, 64, indices, claims, axis, count)
    kernel = Kernel("scatter.cu", UNIT=4)
    given = None if distinct else claims
    kernel(-(-x.numel() // 64), 64, x, indices, given, out, axis, count, inner, total)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize("length", [0, 1, 1000])
def test_search(length: int, right: int) -> None:
    source = np.random.default_rng(10)
    x = source.integers(-9, 9, length).astype("float32")
    x[: length // 10] = math.nan
    wanted = np.concatenate([source.integers(-10, 11, 300), [math.nan, math.inf]]).astype("float32")
    order = np.argsort(x, kind="stable")
    out = torch.full((wanted.size,), -1, device="cuda")
    sizes = [ctypes.c_longlong(n) for n in (length, wanted.size)]
    kernel = Kernel("searchsorted.cu", TYPE="float", COMPUTED="float", RIGHT=right)
    expected = np.searchsorted(x[order], wanted, "right" if right else "left")
    for by, elements in ((None, x[order]), (order, x)):
        places = None if by is None else torch.from_numpy(by).cuda()
        held, others = (
            torch.from_numpy(np.append(one, one[:0].dtype.type(0))).cuda()
            for one in (elements, wanted)
        )
        kernel(-(-wanted.size // 64), 64, held, places, others, out, *sizes)
        np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize("each", [0, 1])
def test_take(each: int) -> None:
    x = torch.randn(2, 9, 33, device="cuda")
    indices = torch.tensor([8, -1 - 8, 3, 5], device="cuda")
    places = torch.tensor([8, 0, 3, 5], device="cuda")
    out = torch.full((2, 4, 33), -1.0, device="cuda")
    given = indices[None, :, None].expand(2, 4, 33).contiguous() if each else indices
    kernel = Kernel("gather.cu", UNIT=4, EACH=each)
    sizes = [ctypes.c_longlong(n) for n in (9, 4, 33, out.numel())]
    kernel(-(-out.numel() // 64), 64, x, given, out, *sizes)
    assert torch.equal(out, x[:, places])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("shape", [(3, 5000, 1), (2, 70, 33)])
def test_extreme_place(shape: tuple[int, int, int], largest: int) -> None:
    outer, length, inner = shape
    x = np.random.default_rng(8).integers(-20, 20, shape).astype("float32")
    x[0, [9, 40], 0] = math.nan
    rows = int(inner == 1)
    out = torch.full((outer, inner), -1, dtype=torch.int64, device="cuda")
    kernel = Kernel("argreduce.cu", TYPE="float", COMPUTED="float", LARGEST=largest, ROWS=rows,
                    TOGETHER=1 + 3 * rows)  # fmt: skip
    grid = (-(-outer // 2), 1) if rows else (-(-inner // 64) * outer, 1)
    sizes = [ctypes.c_longlong(n) for n in (outer, length, inner, 1, length)]
    kernel(grid, (128, 2) if rows else 64, torch.from_numpy(x).cuda(), None, None, out, *sizes)
    expected = (np.argmax if largest else np.argmin)(x, axis=1)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)
