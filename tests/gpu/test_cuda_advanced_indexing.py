"""Advanced indexing, searching and set functions on a GPU, against NumPy."""

import math

import numpy as np
import pytest

from assay import xp
from assay.errors import IndexingError, ShapeError
from assay.runtime import Device, cuda, transfer
from assay.runtime.array import Array

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64"]  # fmt: skip
SOURCE = np.random.default_rng(11)
HOST = SOURCE.integers(-5, 9, (7, 9, 5)).astype("int32")
ROWS, COLUMNS, LAST = (
    SOURCE.integers(-extent, extent, shape) for extent, shape in ((7, (2, 3)), (9, (2, 1)), (5, 3))
)
MASK = HOST > 2
KEYS = [
    (ROWS,),
    (slice(None), COLUMNS),
    (..., LAST),
    (ROWS, COLUMNS),
    (ROWS, COLUMNS, LAST),
    (slice(None), COLUMNS, LAST),
    (ROWS, slice(None), LAST),
    (ROWS, 2),
    (0, slice(None), LAST),
    (slice(None), -1, LAST),
    (ROWS, None, COLUMNS),
    (None, ROWS, COLUMNS),
    (..., ROWS, COLUMNS, 1),
    (slice(2, 6), slice(None, None, -2), LAST),
    (np.zeros(0, dtype="int64"),),
    (MASK,),
    (MASK[:, :, 0],),
    (MASK[:, 0, 0],),
    (..., MASK[0, 0]),
    (MASK[:, 0, 0], slice(1, 4)),
    (MASK[:, 0, 0], 2),
    (MASK[:, :, 1], slice(None, None, -1)),
    (MASK[:, :, 1], LAST[:1]),
    (np.zeros(HOST.shape, dtype=bool),),
]


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def equal(result: Array, expected: Array | np.ndarray) -> None:
    """Equal in value, so that zeros of either sign are equal in bfloat16 too."""
    got = transfer.values(result)
    if isinstance(expected, Array):
        expected = transfer.values(expected)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def placed(device: Device, key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(
        xp.asarray(one, device=device) if isinstance(one, np.ndarray) else one for one in key
    )


def assert_no_array_transfers(device: Device) -> None:
    """Checks that no array was copied to or from the host since the last `take_records`."""
    device.synchronize()
    moved = [one for one in device.take_records().records if one.kind.startswith("copy to")]
    assert all(one.kind == "copy to host" and one.bytes <= 16 for one in moved), moved


def views(host: np.ndarray, device: Device) -> list[tuple[Array, np.ndarray]]:
    """The same elements as contiguous, reversed and strided views."""
    turned = xp.asarray(host[::-1].copy(), device=device)[::-1]
    gaps = np.zeros((14, 9, 10), dtype=host.dtype)
    gaps[::2, :, ::2] = host
    there = xp.asarray(gaps, device=device)
    return [
        (xp.asarray(host, device=device, copy=True), host.copy()),
        (turned, host.copy()),
        (there[::2, :, ::2], gaps[::2, :, ::2]),
    ]


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_advanced_indexing(device: Device, number: int) -> None:
    key = KEYS[number]
    chosen = placed(device, key)
    for there, here in views(HOST, device):
        device.take_records()
        result = there[chosen]
        assert_no_array_transfers(device)
        equal(result, here[key])


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_assigning_advanced_indices(device: Device, number: int) -> None:
    key = KEYS[number]
    chosen = placed(device, key)
    shape = HOST[key].shape
    whole = SOURCE.integers(0, 99, shape).astype("int32")
    part = whole[(0,) * (whole.ndim - 1)].astype("int8") if whole.size else whole
    values = [xp.asarray(one, device=device) for one in (whole, part)]
    for there, here in views(HOST, device):
        device.take_records()
        there[chosen] = 7
        assert_no_array_transfers(device)
        here[key] = 7
        equal(there, here)
        for value, host in zip(values, (whole, part), strict=True):
            there[chosen] = value
            here[key] = host
            equal(there, here)


def test_scatter_last_duplicate_wins(device: Device) -> None:
    order = SOURCE.integers(0, 50, 20_000)
    here = np.zeros((50, 3), dtype="float32")
    there = xp.asarray(here, device=device, copy=True)
    values = SOURCE.standard_normal((20_000, 3)).astype("float32")
    here[order] = values
    there[xp.asarray(order, device=device)] = xp.asarray(values, device=device)
    equal(there, here)


def test_overlapping_operands_and_results(device: Device) -> None:
    x = xp.asarray(np.arange(6), device=device, copy=True)
    x[x] = x[::-1]
    equal(x, np.arange(6)[::-1])
    flags = xp.asarray(np.asarray([[True, False], [True, True]]), device=device, copy=True)
    flags[flags.T] = False
    equal(flags, np.asarray([[False, False], [True, False]]))


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_boolean_indexing_of_every_dtype(device: Device, dtype: str) -> None:
    numbers = SOURCE.integers(0, 3, 9000).astype("float32")
    there, here = (xp.asarray(numbers, dtype=dtype, device=one) for one in (device, "cpu"))
    mask, mask_here = (xp.asarray(numbers > 0, device=one) for one in (device, "cpu"))
    equal(there[mask], here[mask_here])
    for x, flags in ((there, mask), (here, mask_here)):
        x[flags] = True if dtype == "bool" else 1
    equal(there, here)
    for x, flags in ((there, mask), (here, mask_here)):
        x[flags] = xp.asarray(numbers[numbers > 0][::-1], dtype=dtype, device=x.device)
    equal(there, here)


def test_invalid_requests_raise(device: Device) -> None:
    x = xp.asarray(HOST, device=device)

    def on(values: object) -> Array:
        return xp.asarray(np.asarray(values), device=device)

    for key in [(on([7]),), (on([0]), 9), (on([-8]),), (on([True, False]),)]:
        with pytest.raises(IndexingError):
            _ = x[key]
        with pytest.raises(IndexingError):
            x[key] = 1
    with pytest.raises(ShapeError):
        x[on([1, 2])] = on(np.zeros((3, 9, 5), dtype="int32"))
    with pytest.raises(ShapeError, match="counts of at least 0"):
        xp.repeat(x, on([1, -1, 1, 1, 1, 1, 1]), axis=0)
    with pytest.raises(IndexingError):
        xp.take(x, on([8]), axis=0)
    with pytest.raises(IndexingError):
        xp.searchsorted(on([1, 2]), on([1]), sorter=on([0, 2]))


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    found = SOURCE.integers(0, 4, shape).astype("float32")
    if "float" in dtype and found.size > 2:
        found.reshape(-1)[1::7] = math.nan
        found.reshape(-1)[2::9] = -0.0
        found.reshape(-1)[3::11] = math.inf
    return found


SHAPES = [(1,), (5,), (7, 9, 5), (4096,), (4097,), (300_001,), (5000, 3), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(device: Device, dtype: str, shape: tuple[int, ...]) -> None:
    host = numbers(dtype, shape)
    there, here = (xp.asarray(host, dtype=dtype, device=one) for one in (device, "cpu"))
    device.take_records()
    result = xp.nonzero(there)
    assert_no_array_transfers(device)
    for one, expected in zip(result, xp.nonzero(here), strict=True):
        equal(one, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(device: Device, dtype: str, shape: tuple[int, ...]) -> None:
    host = numbers(dtype, shape)
    there, here = (xp.asarray(host, dtype=dtype, device=one) for one in (device, "cpu"))
    device.take_records()
    result = xp.unique_all(there)
    if there.size:
        assert_no_array_transfers(device)
    for one, expected in zip(result, xp.unique_all(here), strict=True):
        equal(one, expected)
    equal(xp.unique_values(there), xp.unique_values(here))
    counted, expected_counts = xp.unique_counts(there), xp.unique_counts(here)
    equal(counted.counts, expected_counts.counts)
    # NumPy does not define the inverse of NaN here.
    values, inverse = xp.unique_inverse(there)
    if there.size:
        equal(xp.take(values, xp.reshape(inverse, (-1,)), axis=0), xp.reshape(here, (-1,)))


@pytest.mark.parametrize("length", [0, 1, 2, 1000, 70_000])
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_searchsorted(device: Device, dtype: str, length: int) -> None:
    host = numbers(dtype, (length,))
    needles = numbers(dtype, (3, 50))
    there, here = (
        tuple(xp.asarray(one, dtype=dtype, device=on) for one in (host, needles))
        for on in (device, "cpu")
    )
    orders = [xp.argsort(x) for x, _ in (there, here)]
    for side in ("left", "right"):
        device.take_records()
        found = xp.searchsorted(xp.sort(there[0]), there[1], side=side)
        if length:
            assert_no_array_transfers(device)
        expected = xp.searchsorted(xp.sort(here[0]), here[1], side=side)
        equal(found, expected)
        by_order = xp.searchsorted(there[0], there[1], side=side, sorter=orders[0])
        equal(by_order, expected)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_repeat(device: Device, axis: int | None) -> None:
    x = xp.asarray(HOST, device=device)
    for times in (0, 1, 3):
        one = xp.asarray(np.asarray([times]), device=device)
        device.take_records()
        result = [xp.repeat(x, times, axis=axis), xp.repeat(x, one, axis=axis)]
        assert_no_array_transfers(device)
        for each in result:
            equal(each, np.repeat(HOST, times, axis=axis))
    counts = SOURCE.integers(0, 4, HOST.size if axis is None else HOST.shape[axis])
    there = xp.asarray(counts.astype("int16"), device=device)
    device.take_records()
    result = xp.repeat(xp.permute_dims(x, (0, 1, 2)), there, axis=axis)
    assert_no_array_transfers(device)
    equal(result, np.repeat(HOST, counts, axis=axis))


def test_advanced_indexing_synchronizes_only_its_stream(device: Device) -> None:
    x = xp.asarray(np.arange(1 << 24, dtype="float32"), device=device)
    mask = x < 100.0
    # Compiles the kernels first.
    busy = device.stream()
    with busy:
        y = xp.sort(xp.flip(x))
    equal(x[mask], np.arange(100, dtype="float32"))
    device.synchronize()
    busy.synchronize()
    with busy:
        for _ in range(40):
            y = xp.sort(xp.flip(y))
        late = busy.record()
    chosen = x[mask]
    assert not late.query()
    busy.synchronize()
    equal(chosen, np.arange(100, dtype="float32"))
