"""The array kernels, generated from the table of expressions, against NumPy."""

import ctypes
import math
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels' memory is held by PyTorch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from kernel_harness import Kernel, sources  # noqa: E402

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
        ("scalars", ctypes.c_ulonglong * 3),
        ("formats", ctypes.c_ubyte * 4),
        ("axes", ctypes.c_int),
    )


def apply(expression: str, inputs: list[np.ndarray], output: str, contiguous: bool) -> np.ndarray:
    """EXPRESSION of arrays that broadcast together."""
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    kind = str(inputs[0].dtype)
    on_device = [torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in inputs]
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
    vector = 4 if contiguous else 1
    padded = [*on_device, *[None] * (3 - len(on_device))]
    results = []
    # The kernel that small arrays share, and the one that is compiled for these types.
    types = {"TYPE0": C_TYPES[kind], "RESULT": C_TYPES[output], "SCALAR_INPUTS": 0, "CONTIGUOUS": int(contiguous),
             "BROADCAST_INPUTS": 0, "VECTOR": vector}  # fmt: skip
    for options, items in (({}, 1), (types, vector)):
        kernel = Kernel("elementwise.cu", EXPRESSION=expression, INPUTS=len(inputs),
                        COMPUTE_TYPE=C_TYPES[kind], INDEX="u32", **options)  # fmt: skip
        ctas = -(-out.numel() // (items * 128))
        out.view(torch.uint8).fill_(0xA5)
        kernel(ctas, 128, *padded, out, ctypes.c_longlong(out.numel()), layout)
        results.append(out.cpu().numpy().copy())
    np.testing.assert_array_equal(*results)
    return results[1]


def close(got: np.ndarray, expected: np.ndarray, absolute: float = 1e-30) -> None:
    tolerance = 5e-6 if got.dtype == np.float32 else 1e-13
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=absolute)
    else:
        np.testing.assert_array_equal(got, expected)


def special(kind: str) -> np.ndarray:
    """Random numbers and edge cases."""
    generator = np.random.default_rng(3)
    edge_cases = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, math.inf, -math.inf, math.nan, 1e-30, 87.0]
    return np.concatenate([edge_cases, generator.standard_normal(500) * 3]).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", [*UNARY, "abs", "ceil", "floor", "trunc", "round", "sign", "negative", "square",
                                  "isnan", "isinf", "isfinite", "signbit", "reciprocal"])  # fmt: skip
def test_unary_expressions_match_numpy(kind: str, name: str) -> None:
    kernel_name = name + "_" if re.search(rf"[( ]{name}_[(,]", TABLE) or name in UNARY else name
    x = special(kind)
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(x)
    got = apply(
        f"{kernel_name}(a0)", [x], "bool" if expected.dtype == bool else kind, contiguous=True
    )
    close(got, expected)


TABLE = sources()["expressions.cuh"]
BINARY_FLOAT = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "atan2": "atan2_",
                "copysign": "copysign_", "hypot": "hypot_", "nextafter": "nextafter_", "logaddexp": "logaddexp",
                "maximum": "maximum", "minimum": "minimum", "pow": "pow_", "remainder": "remainder_",
                "floor_divide": "floor_divide", "equal": "equal", "not_equal": "not_equal", "less": "less",
                "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal"}  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", list(BINARY_FLOAT))
def test_binary_expressions_match_numpy(kind: str, name: str) -> None:
    x, y = special(kind)[:, None], special(kind)[None, :37]
    with np.errstate(all="ignore"):
        expected = getattr(np, NUMPY.get(name, name))(x, y)
        if name == "floor_divide":
            # The standard's quotients at infinities, where NumPy follows Python.
            expected = np.where(np.isinf(x) ^ np.isinf(y), x / y, expected)
    output = "bool" if expected.dtype == bool else kind
    got = apply(f"{BINARY_FLOAT[name]}(a0,a1)", [x, y], output, contiguous=False)
    # Cancellation leaves no relative accuracy near zero.
    absolute = {"float32": 1e-6, "float64": 1e-14}[kind] if name == "logaddexp" else 1e-30
    close(got, expected, absolute)


BINARY_INTEGER = ["add", "subtract", "multiply", "floor_divide", "remainder", "bitwise_and", "bitwise_or",
                  "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "maximum", "less", "pow"]  # fmt: skip


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_integer_expressions_match_numpy(kind: str, name: str) -> None:
    generator = np.random.default_rng(4)
    low = 0 if kind == "uint8" else -100
    x = generator.integers(low, 100, (40, 3, 8)).astype(kind)
    y = generator.integers(low, 100, (3, 1)).astype(kind)
    if "shift" in name or name == "pow":
        y = np.abs(y) % 8
    kernel_name = {"remainder": "remainder_", "pow": "pow_"}.get(name, name)
    loop = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}.get(
        name, NUMPY.get(name, name)
    )
    with np.errstate(all="ignore"):
        expected = getattr(np, loop)(x, y)
    output = "bool" if expected.dtype == bool else kind
    close(apply(f"{kernel_name}(a0,a1)", [x, y], output, contiguous=False), expected)


def test_fused_expression_matches_numpy() -> None:
    x, y, z = (
        np.random.default_rng(i).standard_normal((33, 7)).astype("float32") for i in range(3)
    )
    got = apply("multiply(add(a0,a1),tanh_(a2))", [x, y, z], "float32", contiguous=True)
    close(got, (x + y) * np.tanh(z))


@pytest.mark.parametrize("shape", [(3, 5000, 1), (2, 70, 33), (1, 100004, 1), (4, 1, 1)])
@pytest.mark.parametrize("operator", ["add", "maximum", "multiply"])
def test_reduce_matches_numpy(shape: tuple[int, int, int], operator: str) -> None:
    outer, length, inner = shape
    x = np.random.default_rng(5).uniform(0.999, 1.001, shape).astype("float32")
    if operator == "maximum":
        x[0, length // 2, 0] = math.nan
    on_device = torch.from_numpy(x).cuda()
    rows = int(inner == 1)
    vector = 4 if rows and length % 4 == 0 else 1
    for splits in (1, 7) if length > 100 else (1,):
        out = torch.full((outer, splits, inner), math.nan, device="cuda")
        kernel = Kernel("reduce.cu", TYPE="float", TRANSFORM_TYPE="float", TRANSFORM="a0", CENTERED=0,
                        COMPUTE_TYPE="float", COMBINE=operator, EPILOGUE="multiply(a0,a1)", OUTPUT="float",
                        CONTIGUOUS_AXIS=rows, VECTOR=vector, REGISTER_VECTORS=0)  # fmt: skip
        split_length = -(-length // splits // vector) * vector
        grid = (-(-outer // 2), splits) if rows else (-(-inner // 64) * outer, splits)
        sizes = [ctypes.c_longlong(n) for n in (outer, length, inner, splits, split_length)]
        kernel(grid, (128, 2) if rows else 64, on_device, None, out, *sizes, ctypes.c_double(1.0))
        loop = {"add": np.add, "maximum": np.maximum, "multiply": np.multiply}[operator]
        got = loop.reduce(out.cpu().numpy().astype("float64"), axis=1)
        np.testing.assert_allclose(got, loop.reduce(x.astype("float64"), axis=1), rtol=2e-4)


@pytest.mark.parametrize("storage", ["registers", "read twice"])
@pytest.mark.parametrize("length", [1, 33, 1000, 4096])
def test_centered_reduce_computes_variance(storage: str, length: int) -> None:
    x = np.random.default_rng(8).standard_normal((5, length)).astype("float32") + np.float32(1000)
    x[3, length // 2] = math.nan
    on_device, out = torch.from_numpy(x).cuda(), torch.full((5,), -1.0, device="cuda")
    vector = 4 if length % 4 == 0 else 1
    kernel = Kernel("reduce.cu", TYPE="float", TRANSFORM_TYPE="float", TRANSFORM="square(subtract(a0,a1))", CENTERED=2,
                    COMPUTE_TYPE="float", COMBINE="add", EPILOGUE="divide(a0,a1)", OUTPUT="float",
                    CONTIGUOUS_AXIS=1, VECTOR=vector, REGISTER_VECTORS=8 if storage == "registers" else 0)  # fmt: skip
    sizes = [ctypes.c_longlong(n) for n in (5, length, 1, 1, length)]
    kernel((3, 1), (128, 2), on_device, None, out, *sizes, ctypes.c_double(length))
    np.testing.assert_allclose(out.cpu().numpy(), x.astype("float64").var(axis=1), rtol=1e-5)


@pytest.mark.parametrize("length", [1, 31, 5000])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_scan_matches_cumsum(length: int, exclusive: int) -> None:
    x = np.random.default_rng(6).integers(-9, 9, (3, length)).astype("int32")
    out = torch.full((3, length), -1, dtype=torch.int64, device="cuda")
    totals = torch.full((3,), -1, dtype=torch.int64, device="cuda")
    carries = torch.tensor([5, 0, -2], dtype=torch.int64, device="cuda")
    kernel = Kernel("scan.cu", TYPE="int", COMPUTE_TYPE="i64", OUTPUT="i64", COMBINE="add",
                    EXCLUSIVE=exclusive, VECTOR=1 + (length % 2 == 0), THREADS=128)  # fmt: skip
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
def test_sort_matches_stable_argsort(kind: str, length: int, descending: int) -> None:
    x = (np.random.default_rng(7).standard_normal((2, length)) * 50).astype(kind)
    if kind == "float32":
        x[0, 5:9] = math.nan
    key, signed, infinity = SORTED[kind]
    threads, items = 256, 2
    tiles = -(-length // (threads * items))
    options = {"KEY": key, "SIGNED": signed, "INFINITY_BITS": infinity, "WITH_INDICES": 1,
               "THREADS": threads}  # fmt: skip
    length_and_flip = (length, 255 * descending)
    on_device = torch.from_numpy(x).cuda()
    order = torch.argsort(torch.from_numpy(x), dim=1, stable=True, descending=bool(descending))
    expected = np.take_along_axis(x, order.numpy(), 1)
    # In shared memory, and by one Onesweep pass for each byte of an element.
    values, output_indices = (
        torch.zeros_like(on_device),
        torch.full(on_device.shape, -1, device="cuda"),
    )
    for rows_per_cta in (1, 2):
        row_items = -(-length * rows_per_cta // threads)
        if row_items * threads > 8192:
            continue
        values.zero_()
        output_indices.fill_(-1)
        kernel = Kernel("sort.cu", "sort_rows", ITEMS_PER_THREAD=row_items, **options)
        rows = ctypes.c_ulonglong(2)
        kernel(
            2 // rows_per_cta, threads, on_device, values, output_indices, rows,
            *length_and_flip, rows_per_cta,
        )  # fmt: skip
        np.testing.assert_array_equal(output_indices.cpu().numpy(), order.numpy())
        np.testing.assert_array_equal(values.cpu().numpy(), expected)
    count, move = (
        Kernel("sort.cu", entry, ITEMS_PER_THREAD=items, **options)
        for entry in ("sort_count", "sort_move")
    )
    counts = torch.zeros(2, x.itemsize, 256, dtype=torch.int32, device="cuda")
    count(2 * 3, threads, on_device, counts, *length_and_flip, 3)
    np.testing.assert_array_equal(counts.sum(2).cpu().numpy(), length)
    starts = (counts.cumsum(2) - counts).to(torch.int32)
    indices_in = None
    for shift in range(0, 8 * x.itemsize, 8):
        look_back = torch.zeros(2 * tiles * 256 + 1, dtype=torch.int32, device="cuda")
        values, moved = (
            torch.zeros_like(on_device),
            torch.zeros(on_device.shape, dtype=torch.int32).cuda(),
        )
        output_indices = torch.full(on_device.shape, -1, device="cuda")
        pointers = (on_device, indices_in, starts, look_back, values, moved, output_indices)
        move(2 * tiles, threads, *pointers, *length_and_flip, tiles, shift)
        on_device, indices_in = values, moved
    np.testing.assert_array_equal(output_indices.cpu().numpy(), order.numpy())
    np.testing.assert_array_equal(indices_in.cpu().numpy(), order.numpy())
    np.testing.assert_array_equal(on_device.cpu().numpy(), expected)


@pytest.mark.parametrize("count", [1, 2048, 70_001])
def test_compact_matches_flatnonzero(count: int) -> None:
    flags = np.random.default_rng(9).integers(0, 3, count + 1) == 0
    on_device = torch.from_numpy(flags).cuda()
    for begin in (0, 1):
        # The second time unaligned.
        selected = np.flatnonzero(flags[begin:])
        tiles = -(-(count + 1 - begin) // 2048)
        counts = torch.full((tiles,), -1, device="cuda")
        size = ctypes.c_longlong(count + 1 - begin)
        Kernel("compact.cu", "flag_counts", THREADS=128)(
            tiles, 128, on_device[begin:], counts, size
        )
        indices = torch.full((selected.size + 1,), -1, device="cuda")
        capacity = ctypes.c_longlong(selected.size)
        kernel = Kernel("compact.cu", THREADS=128)
        kernel(tiles, 128, on_device[begin:], counts.cumsum(0), indices, size, capacity)
        np.testing.assert_array_equal(indices.cpu().numpy(), [*selected, -1])


@pytest.mark.parametrize("distinct", [0, 1])
def test_scatter_writes_the_last_of_equal_indices(distinct: int) -> None:
    indices = torch.tensor([8, -9, 3, 5, 30] if distinct else [3, 3, -6, 5, 3], device="cuda")
    in_bounds = 4 if distinct else 5
    x = torch.randn(2, 5, 33, device="cuda")
    out = torch.full((2, 9, 33), -1.0, device="cuda")
    expected = out.cpu().numpy()
    for j, target in enumerate(indices.tolist()[:in_bounds]):
        expected[:, target] = x[:, j].cpu().numpy()
    claims = torch.zeros(9, dtype=torch.int32, device="cuda")
    axis, count, inner, total = (ctypes.c_longlong(n) for n in (9, 5, 33, x.numel()))
    if not distinct:
        Kernel("scatter.cu", "scatter_claim", ACCESS_BYTES=4)(1, 64, indices, claims, axis, count)
    kernel = Kernel("scatter.cu", ACCESS_BYTES=4)
    claims_or_none = None if distinct else claims
    kernel(-(-x.numel() // 64), 64, x, indices, claims_or_none, out, axis, count, inner, total)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize("length", [0, 1, 1000])
def test_searchsorted_matches_numpy(length: int, right: int) -> None:
    source = np.random.default_rng(10)
    x = source.integers(-9, 9, length).astype("float32")
    x[: length // 10] = math.nan
    queries = np.concatenate([source.integers(-10, 11, 300), [math.nan, math.inf]]).astype(
        "float32"
    )
    order = np.argsort(x, kind="stable")
    out = torch.full((queries.size,), -1, device="cuda")
    sizes = [ctypes.c_longlong(n) for n in (length, queries.size)]
    kernel = Kernel("searchsorted.cu", TYPE="float", COMPUTE_TYPE="float", RIGHT=right)
    expected = np.searchsorted(x[order], queries, "right" if right else "left")
    for permutation, elements in ((None, x[order]), (order, x)):
        sorter = None if permutation is None else torch.from_numpy(permutation).cuda()
        on_device, query_values = (
            torch.from_numpy(np.append(one, one[:0].dtype.type(0))).cuda()
            for one in (elements, queries)
        )
        kernel(-(-queries.size // 64), 64, on_device, sorter, query_values, out, *sizes)
        np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize("along_axis", [0, 1])
def test_gather_matches_indexing(along_axis: int) -> None:
    x = torch.randn(2, 9, 33, device="cuda")
    indices = torch.tensor([8, -1 - 8, 3, 5], device="cuda")
    normalized = torch.tensor([8, 0, 3, 5], device="cuda")
    out = torch.full((2, 4, 33), -1.0, device="cuda")
    given = indices[None, :, None].expand(2, 4, 33).contiguous() if along_axis else indices
    kernel = Kernel("gather.cu", ACCESS_BYTES=4, ALONG_AXIS=along_axis)
    sizes = [ctypes.c_longlong(n) for n in (9, 4, 33, out.numel())]
    kernel(-(-out.numel() // 64), 64, x, given, out, *sizes)
    assert torch.equal(out, x[:, normalized])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("shape", [(3, 5000, 1), (2, 70, 33)])
def test_argreduce_matches_argmin_and_argmax(shape: tuple[int, int, int], largest: int) -> None:
    outer, length, inner = shape
    x = np.random.default_rng(8).integers(-20, 20, shape).astype("float32")
    x[0, [9, 40], 0] = math.nan
    rows = int(inner == 1)
    out = torch.full((outer, inner), -1, dtype=torch.int64, device="cuda")
    kernel = Kernel("argreduce.cu", TYPE="float", COMPUTE_TYPE="float", LARGEST=largest, CONTIGUOUS_AXIS=rows,
                    VECTOR=1 + 3 * rows)  # fmt: skip
    grid = (-(-outer // 2), 1) if rows else (-(-inner // 64) * outer, 1)
    sizes = [ctypes.c_longlong(n) for n in (outer, length, inner, 1, length)]
    kernel(grid, (128, 2) if rows else 64, torch.from_numpy(x).cuda(), None, None, out, *sizes)
    expected = (np.argmax if largest else np.argmin)(x, axis=1)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)
