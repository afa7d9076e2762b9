"""Zero-copy exchange with NumPy, the buffer protocol and DLPack, both ways."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

from assay import xp
from assay.errors import ArrayBufferError, DeviceError, DTypeError, ShapeError, UnknownNameError
from assay.runtime import Array, Device, dtypes, interop
from chosen_device import cpu_only

NUMPY_TYPES = [dtype for dtype in dtypes.ALL if dtype is not dtypes.bfloat16]


@cpu_only
@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
def test_numpy_shares_array_memory(dtype: dtypes.DType) -> None:
    x = xp.zeros((3, 5), dtype=dtype)[::2, 1:]
    seen = np.asarray(x)
    assert seen.dtype == np.dtype(dtype.name)
    assert seen.shape == x.shape == (2, 4)
    assert seen.strides == x.strides
    seen[1, 2] = 1
    assert x[1, 2].tolist() == 1
    x[0, 0] = True if dtype.kind == "bool" else 1
    assert seen[0, 0] == 1
    assert np.asarray(memoryview(x)).ctypes.data == seen.ctypes.data  # type: ignore[arg-type]


@cpu_only
@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
@pytest.mark.parametrize(
    "key", [(), (slice(None, None, -1),), (slice(None), slice(1, 3)), (1,), (slice(0, 0),)]
)
def test_asarray_shares_numpy_memory(dtype: dtypes.DType, key: Any) -> None:
    base = np.arange(12).reshape(3, 4).astype(dtype.name)
    source = base[key]
    x = xp.asarray(source)
    assert x.dtype is dtype
    assert x.shape == source.shape
    assert np.array_equal(np.asarray(x), source)
    if source.size:
        assert np.asarray(x).ctypes.data == source.ctypes.data
        source[...] = 0
        assert not np.asarray(x).any()


@cpu_only
def test_copy_true_never_shares_and_copy_false_never_copies() -> None:
    source = np.arange(6.0)
    assert np.asarray(xp.asarray(source, copy=True)).ctypes.data != source.ctypes.data
    assert np.asarray(xp.asarray(source, copy=False)).ctypes.data == source.ctypes.data
    with pytest.raises(
        ArrayBufferError, match="asarray: expected memory that can be shared, got list"
    ):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="copy"):
        np.array(xp.ones(3, dtype=xp.float32), dtype=np.float64, copy=False)
    with pytest.raises(BufferError, match="expected float32 on cpu without a copy, got float64"):
        xp.asarray(source, dtype=xp.float32, copy=False)


@cpu_only
def test_read_only_memory_is_not_written() -> None:
    source = np.arange(4)
    source.flags.writeable = False
    x = xp.asarray(source)
    with pytest.raises(DeviceError, match="setitem: expected writable memory"):
        x[0] = 5
    with pytest.raises(DeviceError, match="add: expected writable memory"):
        x += 1
    assert source.tolist() == [0, 1, 2, 3]
    assert not np.asarray(x).flags.writeable
    assert not np.from_dlpack(x).flags.writeable
    assert not xp.from_dlpack(source).buffer.writable


@cpu_only
@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
def test_dlpack_round_trip_copies_nothing(dtype: dtypes.DType) -> None:
    x = xp.ones((4, 6), dtype=dtype)[1:, ::-2]
    there = np.from_dlpack(x)
    assert there.ctypes.data == np.asarray(x).ctypes.data
    assert there.strides == x.strides
    assert there.dtype == np.dtype(dtype.name)
    back = xp.from_dlpack(there)
    assert back.dtype is dtype
    assert back.strides == x.strides
    assert np.asarray(back).ctypes.data == there.ctypes.data


def test_dlpack_keeps_memory_alive(cpu: Device) -> None:
    x = xp.full((1000,), 3, dtype=xp.int16, device=cpu)
    there = np.from_dlpack(x)
    del x
    gc.collect()
    xp.zeros((1000,), dtype=xp.int16, device=cpu)
    assert there.tolist() == [3] * 1000
    frees = cpu.pool_statistics()["deallocations"]
    del there
    gc.collect()
    assert cpu.pool_statistics()["deallocations"] == frees + 1


@cpu_only
def test_dlpack_capsule_is_consumed_once() -> None:
    capsule = xp.ones(3).__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)

    class Producer:
        def __dlpack__(self, **_: Any) -> Any:
            return capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert xp.from_dlpack(Producer()).tolist() == [1.0] * 3
    assert "used_dltensor_versioned" in repr(capsule)
    with pytest.raises(BufferError, match="taken over once"):
        xp.from_dlpack(Producer())


def test_unused_capsules_free_their_memory(cpu: Device) -> None:
    for versions in (None, (1, 0)):
        x = xp.ones(1000, device=cpu)
        capsule = x.__dlpack__(max_version=versions)
        buffer = x.buffer
        assert buffer.exports > 0
        del capsule, x
        gc.collect()
        assert buffer.exports == 0


@cpu_only
def test_dlpack_before_1_0_is_supported() -> None:
    class Old:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    source = np.arange(3.0)
    assert np.asarray(xp.from_dlpack(Old(source))).ctypes.data == source.ctypes.data
    assert '"dltensor"' in repr(xp.ones(2).__dlpack__())


@cpu_only
def test_dlpack_keeps_bfloat16() -> None:
    x = xp.asarray([1.0, -2.5], dtype=xp.bfloat16)
    back = xp.from_dlpack(x)
    assert back.dtype is xp.bfloat16
    assert back.buffer is x.buffer
    assert np.asarray(x).tolist() == [0x3F80, 0xC020]


def test_dlpack_raises_for_unsupported_requests(sim: Device) -> None:
    x = xp.ones(3, device=sim)
    with pytest.raises(
        BufferError, match="__dlpack__: expected a device with a DLPack type, got sim"
    ):
        x.__dlpack__()
    assert np.from_dlpack(x.to_device("cpu")).tolist() == [1.0] * 3
    with pytest.raises(BufferError, match="expected stream None"):
        xp.ones(3).__dlpack__(stream=3)
    with pytest.raises(BufferError, match=r"expected device \(1, 0\) or \(1, 0\), got \(2, 0\)"):
        xp.ones(3).__dlpack__(dl_device=(2, 0))
    with pytest.raises(
        DTypeError, match="from_dlpack: expected an object with __dlpack__, got int"
    ):
        xp.from_dlpack(3)


def test_misaligned_and_byte_swapped_arrays_are_converted() -> None:
    raw = np.zeros(33, np.uint8)
    odd = raw[1:].view(np.float64)
    odd[:] = [1.0, 2.0, 3.0, 4.0]
    assert (xp.asarray(odd) * 2).tolist() == [2.0, 4.0, 6.0, 8.0]
    assert xp.asarray(np.arange(3).astype(">i4")).tolist() == [0, 1, 2]
    fields = np.zeros(3, [("a", "u1"), ("b", "f4")])
    fields["b"] = [1, 2, 3]
    assert xp.asarray(fields["b"]).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("value", "dtype", "values"),
    [
        (3, "int64", 3),
        (2.5, "float64", 2.5),
        (1j, "complex128", 1j),
        (True, "bool", True),
        ([], "float64", []),
        ([[1, 2], [3, 4]], "int64", [[1, 2], [3, 4]]),
        ([1, 2.5], "float64", [1.0, 2.5]),
        (b"ab", "uint8", [97, 98]),
        (bytearray(b"c"), "uint8", [99]),
        ([2**63], "uint64", [2**63]),
        (np.float32(1.5), "float32", 1.5),
    ],
)
def test_asarray_of_python_values(value: Any, dtype: str, values: Any) -> None:
    x = xp.asarray(value)
    assert str(x.dtype) == dtype
    assert x.tolist() == values


@pytest.mark.parametrize("value", ["text", [[1], [2, 3]], object(), [2**80]])
def test_asarray_of_non_numbers_raises(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        xp.asarray(value)


def test_devices_exchange_arrays(sim: Device) -> None:
    x = xp.asarray(np.arange(12, dtype=np.int16).reshape(3, 4))[:, ::-1]
    there = x.to_device(sim)
    assert there.device is sim
    assert (there + there).to_device("cpu").tolist() == (np.asarray(x) * 2).tolist()
    assert there.to_device(sim) is there
    assert np.asarray(there).tolist() == np.asarray(x).tolist()
    with pytest.raises(DeviceError, match="add: expected arrays on one device, got cpu and sim"):
        x + there
    with pytest.raises(BufferError):
        memoryview(there)  # type: ignore[arg-type]


@cpu_only
def test_numpy_names_a_type_it_does_not_have() -> None:
    """The exception of the consumer survives the end of the capsule."""
    x = xp.asarray([1.0, 2.0], dtype=xp.bfloat16)
    for _ in range(3):
        # NumPy's own class of exception differs between its versions.
        with pytest.raises((BufferError, RuntimeError), match="dtype"):
            np.from_dlpack(x)
    assert x.buffer.exports == 0
    assert x.tolist() == [1.0, 2.0]


def pickled(x: Array) -> Any:
    return pickle.loads(pickle.dumps(x))  # noqa: S301


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickled], ids=["copy", "deepcopy", "pickle"]
)
def test_arrays_copy_and_pickle(dtype: dtypes.DType, duplicate: Any) -> None:
    for key in ((), (slice(None, None, -1), slice(1, 3)), (slice(0, 0),), (1, 2)):
        x = xp.astype(xp.reshape(xp.arange(12) % 2, (3, 4)), dtype)[key]
        other = duplicate(x)
        assert (other.dtype, other.shape, other.device) == (x.dtype, x.shape, x.device)
        assert other.tolist() == x.tolist()
        assert other.buffer is not x.buffer


def test_containers_of_arrays_copy(sim: Device) -> None:
    on_sim = xp.asarray([1.0, 2.0], device=sim)
    copied = copy.deepcopy({"x": [on_sim, on_sim]})["x"]
    assert copied[0] is copied[1]
    assert copied[0].device is sim
    # A private device has no name of its own, so pickles are loaded on the shared one.
    assert pickled(on_sim).device.name == "sim"


def test_damaged_pickles_are_refused() -> None:
    with pytest.raises(DTypeError, match="expected elements of float32, got"):
        interop.restore("cpu", "float32", np.zeros(2))
    with pytest.raises(UnknownNameError, match="tpu"):
        interop.restore("tpu", "float64", np.zeros(2))


@pytest.mark.parametrize("value", [[[1, 2], [3]], [[1, 2], 3], [[[1], [2]], [[3], [4, 5]]]])
def test_ragged_lists_are_refused(value: Any) -> None:
    with pytest.raises(ShapeError, match="expected nested sequences of equal lengths"):
        xp.asarray(value)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([-1], xp.uint8), (300, xp.int8), ([[2**31]], xp.int32), ([1, 256], xp.uint8)],
)
def test_python_integers_out_of_range_are_refused(value: Any, dtype: dtypes.DType) -> None:
    with pytest.raises(DTypeError, match=rf"expected values that fit {dtype}, got -?\d+"):
        xp.asarray(value, dtype=dtype)
    assert xp.asarray([255, 0], dtype=xp.uint8).tolist() == [255, 0]


@pytest.mark.parametrize("shape", [1.5, (2, 1.5), "ab", None, [[1]]])
def test_shapes_that_are_not_integers_are_refused(shape: Any) -> None:
    with pytest.raises(ShapeError, match="expected a shape of integers, got"):
        xp.zeros(shape)
