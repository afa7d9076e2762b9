"""Arrays on a GPU: every operation with a kernel matches NumPy and runs on the device."""

import math

import numpy as np
import pytest

from assay import xp
from assay.errors import DTypeError
from assay.runtime import Device, cuda, dtypes
from assay.runtime.array import Array
from assay.runtime.ufuncs import BINARY, UNARY

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

REALS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZES = [600, 70_000]
"""One size for generic kernels, which read formats at run time, one for specialized kernels."""

DTYPES = dtypes.BY_NAME


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def values(name: str, size: int, seed: int = 1) -> np.ndarray:
    """Random elements and edge cases."""
    source = np.random.default_rng(seed)
    if name == "bool":
        return source.integers(0, 2, size).astype(bool)
    if name in INTEGERS:
        limits = np.iinfo(name)
        found = source.integers(limits.min, limits.max, size, dtype=name, endpoint=True)
        found[:6] = [0, 1, limits.max, limits.min, 7, 100]
        return found
    found = source.standard_normal(size) * 3
    odd = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, math.inf, -math.inf, math.nan, 1e-4, 10.0]
    found[: len(odd)] = np.roll(odd, 5 * seed)
    return found.astype("float32" if name in REALS[:3] else "float64")


def both(name: str, host: np.ndarray, device: Device) -> tuple[Array, Array]:
    """The same elements on the GPU and on the CPU, whose loops are NumPy's."""
    here = xp.asarray(host, dtype=name, device="cpu", copy=True)
    return xp.asarray(host, dtype=name, device=device), here


def same(there: Array, here: Array, ulps: float = 4.0) -> None:
    """Equal to within some units in the last place for floating types."""
    assert there.dtype is here.dtype
    assert there.shape == here.shape
    got, expected = (np.asarray(one) for one in (xp_values(there), xp_values(here)))
    if here.dtype.kind != "float":
        np.testing.assert_array_equal(got, expected)
        return
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(
        here.dtype.name, float(xp.finfo(here.dtype).eps)
    )
    wide = got.astype("float64"), expected.astype("float64")
    np.testing.assert_allclose(*wide, rtol=ulps * eps, atol=1e-300)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


def xp_values(array: Array) -> np.ndarray:
    return (
        xp.astype(array, xp.float32).to_numpy() if array.dtype is xp.bfloat16 else array.to_numpy()
    )


def assert_ran_on_device(device: Device) -> None:
    """Checks that nothing was copied through the host since the last `take_records`."""
    device.synchronize()
    kinds = {record.kind for record in device.take_records().records}
    assert not kinds & {"copy to host", "copy to device"}
    assert kinds & {"launch", "copy within device"}


def kinds_of(rule: object) -> list[str]:
    kinds = rule.kinds  # type: ignore[attr-defined]
    return [one for one in ("bool", *INTEGERS, *REALS) if DTYPES[one].kind in kinds]


LOOSE = {"sinh", "cosh", "tan", "pow", "logaddexp", "log10", "log1p", "expm1", "tanh", "asinh", "acosh", "atanh",
         "hypot", "atan2", "asin", "acos"}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [one for one in UNARY if UNARY[one].expression])
def test_unary(device: Device, name: str, size: int) -> None:
    for dtype in kinds_of(UNARY[name]):
        there, here = both(dtype, values(dtype, size), device)
        device.take_records()
        result = getattr(xp, name)(there)
        assert_ran_on_device(device)
        same(result, getattr(xp, name)(here), 16 if name in LOOSE else 4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", list(BINARY))
def test_binary(device: Device, name: str, size: int) -> None:
    for dtype in kinds_of(BINARY[name]):
        if name == "nextafter" and dtype in ("float16", "bfloat16"):
            continue
        first, second = values(dtype, size, 1), values(dtype, size, 2)
        if "shift" in name or (name == "pow" and dtype in INTEGERS):
            second = (np.abs(second.astype("int64")) % 7).astype(second.dtype)
        (a, a_here), (b, b_here) = both(dtype, first, device), both(dtype, second, device)
        device.take_records()
        result = getattr(xp, name)(a, b)
        if not (name == "pow" and dtype.startswith("int")):
            assert_ran_on_device(device)
        loose = name in LOOSE
        expected = getattr(xp, name)(a_here, b_here)
        if name == "logaddexp":
            # Cancellation: the sum of two numbers of opposite sign has no more digits than they
            # have.
            np.testing.assert_allclose(
                xp_values(result).astype("float64"),
                xp_values(expected).astype("float64"),
                rtol=64 * float(xp.finfo(result.dtype).eps),
                atol=16 * float(xp.finfo(result.dtype).eps),
            )
            continue
        same(result, expected, 16 if loose else 4)


MIXED = [("int8", "int32"), ("uint8", "int8"), ("uint32", "int64"), ("float32", "float64"), ("float16", "bfloat16"),
         ("uint16", "uint64"), ("bfloat16", "float32"), ("float16", "float64")]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("first", "second"), MIXED)
def test_dtype_promotion_matches_cpu(device: Device, first: str, second: str, size: int) -> None:
    (a, a_here), (b, b_here) = (
        both(name, values(name, size, seed), device) for seed, name in enumerate((first, second))
    )
    device.take_records()
    result = [a + b, a * b, a < b, xp.maximum(b, a)]
    assert_ran_on_device(device)
    expected = [a_here + b_here, a_here * b_here, a_here < b_here, xp.maximum(b_here, a_here)]
    for there, here in zip(result, expected, strict=True):
        same(there, here, 1)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *REALS])
@pytest.mark.parametrize("size", [200, 40_000])
def test_casts(device: Device, dtype: str, size: int) -> None:
    host = values(dtype, size)
    if dtype in REALS:
        # A cast of a value outside the integer's range is undefined.
        host = np.nan_to_num(host, nan=1.0, posinf=9.0, neginf=0.0)
    there, here = both(dtype, host, device)
    for to in ("bool", *INTEGERS, *REALS):
        if dtype in REALS and to.startswith("uint"):
            there, here = xp.abs(there), xp.abs(here)
        device.take_records()
        result = xp.astype(there, to)
        assert_ran_on_device(device)
        same(result, xp.astype(here, to), 0)


@pytest.mark.parametrize("rows", [5, 300])
def test_views_and_broadcasting(device: Device, rows: int) -> None:
    host = np.random.default_rng(3).standard_normal((rows, 130, 6)).astype("float32")
    there, here = both("float32", host, device)
    device.take_records()
    makers = [
        lambda x: x[::2, ::-3, 1:] + x[::2, ::-3, :1],
        lambda x: xp.permute_dims(x, (2, 0, 1)) * 2.0,
        lambda x: 1.0 - x[:, None, 0] / x,
        lambda x: xp.flip(x) > x,
        lambda x: xp.asarray(x[::-1], copy=True),
        lambda x: xp.reshape(xp.permute_dims(x, (1, 0, 2)), (-1,)),
        lambda x: xp.concat([x, x[:, :3], -x], axis=1),
        lambda x: xp.stack([x, x * 2.0], axis=1),
        lambda x: xp.where(x > 0.0, x, 0.0),
        lambda x: xp.clip(x, -0.5, 0.25),
        lambda x: xp.clip(x, max=0.25),
        lambda x: -x.T[2] if x.ndim == 2 else -x[..., 2],
    ]
    result = [make(there) for make in makers]
    assert_ran_on_device(device)
    for one, make in zip(result, makers, strict=True):
        same(one, make(here))


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "bool", "int8", "bfloat16"])
def test_copies_of_any_type(device: Device, dtype: str) -> None:
    host = np.arange(600).reshape(20, 30)
    there = xp.asarray(host, dtype=dtype, device=device)
    here = xp.asarray(host, dtype=dtype, device="cpu")
    device.take_records()
    result = xp.asarray(there.T[::3], copy=True)
    assert_ran_on_device(device)
    np.testing.assert_array_equal(result.to_numpy(), here.T[::3].to_numpy())


def test_assigning_slices(device: Device) -> None:
    host = np.arange(48, dtype="float32").reshape(6, 8)
    there, here = both("float32", host, device)
    device.take_records()
    for x in (there, here):
        x[1:4, ::2] = -1.0
        x[0] = x[5]
        x[:, 1:] = x[:, :-1]
        x += x[0]
        x *= 2.0
    assert_ran_on_device(device)
    same(there, here)


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "count_nonzero",
              "argmax", "argmin"]  # fmt: skip


@pytest.mark.parametrize(
    "shape", [(7,), (3, 5000), (70_000,), (400_001,), (40, 70, 33), (2, 3000, 5), (70_000, 3)]
)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(device: Device, name: str, shape: tuple[int, ...]) -> None:
    floating = name in ("mean", "var", "std")
    for dtype in [*REALS, *([] if floating else ["int32", "uint8", "int64"])]:
        if dtype in REALS:
            host = np.random.default_rng(5).uniform(0.5, 1.5, shape).astype("float32")
            if name == "prod":
                # Exact in every type, in any order.
                host = np.ones(shape, dtype="float32")
                indices = np.random.default_rng(6).integers(0, host.size, 18)
                host.reshape(-1)[indices] = np.tile([2.0, 0.5, -1.0], 6)
        else:
            host = np.random.default_rng(5).integers(0, 90, shape).astype(dtype)
        there, here = both(dtype, host, device)
        axes = [None, 0, -1] if name.startswith("arg") else [None, 0, -1, tuple(range(len(shape)))]
        for axis in axes:
            device.take_records()
            result = getattr(xp, name)(there, axis=axis, keepdims=axis == 0)
            assert_ran_on_device(device)
            if (
                dtype in REALS
                and result.dtype.kind != "bool"
                and not name.startswith(("arg", "count"))
            ):
                # NumPy's sums of 16-bit types lose digits, so the reference sums in double
                # precision.
                wide = xp.astype(here, xp.float64)
                expected = getattr(xp, name)(wide, axis=axis, keepdims=axis == 0)
                eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}.get(
                    dtype, 2.0**-52
                )
                got = np.asarray(xp_values(result), "float64")
                limit = 65504 if dtype == "float16" else math.inf
                reference = expected.to_numpy()
                reference = np.where(reference > limit, math.inf, reference)
                # Rounding of the mean shows in small deviations from it.
                least = 4 * eps if name in ("var", "std") else 0.0
                tolerance = (16 + (here.size / result.size) ** 0.5) * eps
                np.testing.assert_allclose(got, reference, rtol=tolerance, atol=least)
            else:
                same(result, getattr(xp, name)(here, axis=axis, keepdims=axis == 0))


def test_nan_and_infinity_in_reductions(device: Device) -> None:
    host = np.random.default_rng(6).standard_normal((5, 9000)).astype("float32")
    host[1, 17] = math.nan
    host[2, 8000] = math.inf
    host[3, 5] = -math.inf
    host[4, [3, 8999]] = [math.inf, -math.inf]
    there, here = both("float32", host, device)
    for name in ("sum", "max", "min", "argmax", "argmin"):
        for axis in (None, 1):
            result = getattr(xp, name)(there, axis=axis)
            expected = getattr(xp, name)(here, axis=axis)
            np.testing.assert_allclose(result.to_numpy(), expected.to_numpy(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    "shape", [(1,), (300,), (8193,), (500_000,), (500_001,), (3, 9000), (50, 60)]
)
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64", "bfloat16"])
def test_cumulative_sums(device: Device, dtype: str, shape: tuple[int, ...]) -> None:
    host = np.random.default_rng(7).integers(0, 3, shape)
    there, here = both(dtype, host.astype("float32"), device)
    wide = xp.astype(here, xp.float64)
    for axis in range(len(shape)):
        device.take_records()
        result = xp.cumulative_sum(there, axis=axis)
        assert_ran_on_device(device)
        exact = xp.cumulative_sum(wide, axis=axis).to_numpy()
        eps = {"bfloat16": 2.0**-8}.get(dtype, 2.0**-24)
        np.testing.assert_allclose(np.asarray(xp_values(result), "float64"), exact, rtol=eps)
        led = xp.cumulative_sum(there, axis=axis, include_initial=True)
        assert led.shape[axis] == shape[axis] + 1
        same(led[(slice(None),) * axis + (slice(1, None),)], result, 0)


@pytest.mark.parametrize(
    "shape",
    [
        (1,),
        (257,),
        (1000,),
        (4096,),
        (5000,),
        (3, 2049),
        (70_000, 4),
        (33, 40),
        (300_001,),
        (2, 8193),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *REALS])
def test_sorting(device: Device, dtype: str, descending: bool, shape: tuple[int, ...]) -> None:
    host = (
        values(dtype, math.prod(shape)).reshape(shape) if math.prod(shape) > 12 else np.ones(shape)
    )
    there, here = both(dtype, host, device)
    device.take_records()
    for axis in range(len(shape)):
        options = {"axis": axis, "descending": descending}
        placed = xp.argsort(there, **options)
        result = xp.sort(there, **options)
        same(placed, xp.argsort(here, **options))
        expected = xp.sort(here, **options)
        np.testing.assert_array_equal(xp_values(result), xp_values(expected))


@pytest.mark.parametrize("length", [900, 40_000])
def test_sorting_small_integers(device: Device, length: int) -> None:
    host = np.random.default_rng(12).integers(-3, 300, (3, length))
    host[1] = 7
    there, here = both("int64", host, device)
    same(xp.argsort(there), xp.argsort(here))
    same(xp.sort(there, descending=True), xp.sort(here, descending=True))


def test_sort_is_stable(device: Device) -> None:
    host = np.tile(np.asarray([0.0, -0.0, math.nan, 1.0, -math.nan, -math.inf], "float32"), 3000)
    there, here = both("float32", host, device)
    for shape in ((-1,), (9, 2000)):
        for descending in (False, True):
            a, b = (xp.reshape(x, shape) for x in (there, here))
            result = xp.argsort(a, descending=descending)
            same(result, xp.argsort(b, descending=descending))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(device: Device, dtype: str, axis: int) -> None:
    host = np.arange(7 * 9 * 32).reshape(7, 9, 32) % 200
    there, here = both(dtype, host, device)
    order = np.random.default_rng(8).integers(-7, 7, 40)
    result = xp.take(there, xp.asarray(order, device=device), axis=axis)
    same_bytes(result, np.take(here.to_numpy(), order, axis=axis))
    shape = [7, 9, 32]
    shape[axis] = 5
    each = np.random.default_rng(9).integers(0, 7, shape)
    result = xp.take_along_axis(there, xp.asarray(each, device=device), axis=axis)
    same_bytes(result, np.take_along_axis(here.to_numpy(), each, axis=axis))


def test_indexing_by_integers(device: Device) -> None:
    host = np.arange(7 * 9 * 5, dtype=np.int32).reshape(7, 9, 5)
    there = xp.asarray(host, device=device)
    order = np.asarray([[3, -1], [0, 6]])
    chosen = xp.asarray(order, device=device)
    same_bytes(there[chosen], host[order])
    same_bytes(there[:, chosen], host[:, order])
    same_bytes(there[..., 1:, chosen % 5], host[..., 1:, order % 5])
    same_bytes(there[..., chosen, :], host[..., order, :])
    same_bytes(there[2:, chosen, None], host[2:, order, None])
    same_bytes(there[chosen, 2], host[order, 2])
    same_bytes(there[there > 100], host[host > 100])


def test_manipulation_functions(device: Device) -> None:
    host = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    there, here = both("float32", host, device)
    makers = [
        lambda x: xp.roll(x, 5),
        lambda x: xp.roll(x, (-1, 8), axis=(0, 1)),
        lambda x: xp.tile(x, (2, 1, 3)),
        lambda x: xp.tril(x, k=1),
        lambda x: xp.triu(x[:, ::-1], k=-1),
        lambda x: xp.eye(5, 7, k=2, dtype=x.dtype, device=x.device),
        lambda x: xp.eye(5, k=-1, dtype=x.dtype, device=x.device),
    ]
    device.take_records()
    result = [make(there) for make in makers]
    assert_ran_on_device(device)
    for one, make in zip(result, makers, strict=True):
        same(one, make(here))


def same_bytes(result: Array, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(result.to_numpy(), expected)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint64", "int64", "float32", "float64", "bfloat16", "float16", "bool"]
)
def test_creation(device: Device, dtype: str) -> None:
    device.take_records()
    result = [
        xp.full((3, 70), 1, dtype=dtype, device=device),
        xp.ones(5, dtype=dtype, device=device),
    ]
    assert_ran_on_device(device)
    expected = [xp.full((3, 70), 1, dtype=dtype), xp.ones(5, dtype=dtype)]
    if dtype != "bool":
        result += [
            xp.arange(100, dtype=dtype, device=device),
            xp.arange(3, 90, 4, dtype=dtype, device=device),
        ]
        expected += [xp.arange(100, dtype=dtype), xp.arange(3, 90, 4, dtype=dtype)]
    if dtype.startswith(("float", "bf")):
        result.append(xp.arange(0.1, 9.0, 0.3, dtype=dtype, device=device))
        expected.append(xp.arange(0.1, 9.0, 0.3, dtype=dtype))
        result.append(xp.full(4, 0.1, dtype=dtype, device=device))
        expected.append(xp.full(4, 0.1, dtype=dtype))
    for there, here in zip(result, expected, strict=True):
        same(there, here, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_matrix_products(device: Device, dtype: str) -> None:
    source = np.random.default_rng(10)
    shapes = [((3, 40), (40, 5)), ((40,), (40, 5)), ((6, 40), (40,)), ((40,), (40,)),
              ((4, 3, 40), (40, 9)), ((4, 3, 40), (4, 40, 9)), ((2, 1, 3, 40), (5, 40, 9))]  # fmt: skip
    for left, right in shapes:
        a, b = (source.standard_normal(shape).astype("float32") for shape in (left, right))
        (there_a, here_a), (there_b, here_b) = both(dtype, a, device), both(dtype, b, device)
        result = there_a @ there_b
        exact = np.asarray(xp_values(here_a), "float64") @ np.asarray(xp_values(here_b), "float64")
        eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 2.0**-20)
        np.testing.assert_allclose(xp_values(result), exact, rtol=2 * eps, atol=8 * eps)


def test_negative_integer_powers_raise(device: Device) -> None:
    x = xp.asarray(np.arange(5), device=device)
    with pytest.raises(DTypeError, match="exponents of at least 0"):
        _ = x ** xp.asarray(np.asarray([1, 0, -1, 2, 3]), device=device)
    with pytest.raises(DTypeError, match="exponents of at least 0"):
        _ = x**-2
    np.testing.assert_array_equal((x**3).to_numpy(), np.arange(5) ** 3)


def test_arrays_beyond_the_axis_limit_use_numpy(device: Device) -> None:
    host = np.arange(1024, dtype="float32").reshape((2,) * 10)
    there = xp.asarray(host, device=device)
    np.testing.assert_array_equal((there + there).to_numpy(), host + host)
    np.testing.assert_array_equal(xp.flip(there).to_numpy(), np.flip(host))
