"""DLPack and the CUDA array interface with PyTorch and CuPy: shared memory, stream-ordered."""

import copy
import gc
import pickle

import numpy as np
import pytest

from assay import xp
from assay.errors import ArrayBufferError, AssayError
from assay.runtime import Device, cuda

torch = pytest.importorskip("torch", reason="PyTorch is the other side of the exchange")
if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)
if not torch.cuda.is_available():
    pytest.skip("PyTorch has no GPU", allow_module_level=True)

pytestmark = pytest.mark.gpu

LARGE = 1 << 26
"""Enough elements for a missing stream dependency to show."""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def test_pytorch_tensor_over_our_memory(device: Device) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    ours = xp.asarray(values, device=device)
    assert ours.__dlpack_device__() == (2, 0)
    theirs = torch.from_dlpack(ours[1:, ::2])
    assert theirs.data_ptr() == ours.buffer.pointer + 24
    assert theirs.stride() == (6, 2)
    np.testing.assert_array_equal(theirs.cpu().numpy(), values[1:, ::2])
    theirs.fill_(-1.0)
    torch.cuda.synchronize()
    values[1:, ::2] = -1.0
    np.testing.assert_array_equal(ours.to_numpy(), values)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float64", "complex64"]
)
def test_array_over_pytorch_memory(device: Device, dtype: str) -> None:
    theirs = (torch.arange(40, device="cuda").reshape(5, 8) % 3).to(getattr(torch, dtype))
    ours = xp.from_dlpack(theirs[:, 2:].T, device=device)
    assert ours.dtype.name == dtype
    assert ours.buffer.pointer <= theirs.data_ptr() + 2 * theirs.element_size()
    assert not ours.buffer.pooled
    wide = torch.complex128 if dtype == "complex64" else torch.float64
    expected = theirs[:, 2:].T.cpu().to(wide).numpy()
    got = ours.to_numpy() if dtype != "bfloat16" else xp.astype(ours, xp.float32).to_numpy()
    np.testing.assert_array_equal(got.astype(expected.dtype), expected)


def test_from_dlpack_finds_the_device() -> None:
    theirs = torch.ones(3, device="cuda")
    assert xp.from_dlpack(theirs).device.name == "cuda:0"
    assert xp.from_dlpack(torch.ones(3)).device.name == "cpu"
    assert xp.asarray(theirs, device="cpu").tolist() == [1.0, 1.0, 1.0]


def test_operations_on_borrowed_memory(device: Device) -> None:
    theirs = torch.arange(12, dtype=torch.float32, device="cuda").reshape(3, 4)
    ours = xp.from_dlpack(theirs, device=device)
    host = theirs.cpu().numpy()
    np.testing.assert_array_equal((ours * 2.0 + ours).to_numpy(), host * 3)
    np.testing.assert_array_equal(xp.sum(ours, axis=0).to_numpy(), host.sum(0))
    np.testing.assert_array_equal(xp.unique_values(ours).to_numpy(), np.unique(host))
    ours[1] = 7.0
    device.synchronize()
    assert theirs[1].tolist() == [7.0] * 4
    ours[ours > 7.0] = 0.0
    device.synchronize()
    np.testing.assert_array_equal(theirs.cpu().numpy(), [[0, 1, 2, 3], [7, 7, 7, 7], [0, 0, 0, 0]])


def test_dlpack_export_orders_the_consumer(device: Device) -> None:
    stream = torch.cuda.Stream()
    for _ in range(5):
        ours = xp.zeros((LARGE,), dtype=xp.float32, device=device)
        for _ in range(8):
            ours += 1.0
        with torch.cuda.stream(stream):
            theirs = torch.from_dlpack(ours)
            last = theirs[-4:].clone()
            total = theirs.sum()
        stream.synchronize()
        assert last.tolist() == [8.0] * 4
        assert float(total) == 8.0 * LARGE


def test_dlpack_import_waits_for_the_producer(device: Device) -> None:
    stream = torch.cuda.Stream()
    for _ in range(5):
        with torch.cuda.stream(stream):
            theirs = torch.zeros(LARGE, device="cuda")
            for _ in range(8):
                theirs += 1.0
            ours = xp.from_dlpack(theirs, device=device)
        assert float(xp.sum(ours)) == 8.0 * LARGE


def test_shared_memory_lives_until_both_sides_release_it(device: Device) -> None:
    ours = xp.full((LARGE,), 3.0, dtype=xp.float32, device=device)
    theirs = torch.from_dlpack(ours)
    del ours
    for _ in range(6):
        theirs = theirs * 1.0
    tensor = torch.from_dlpack(xp.full((LARGE,), 5.0, dtype=xp.float32, device=device))
    product = tensor * 2.0
    del tensor
    gc.collect()
    xp.zeros((LARGE,), dtype=xp.float32, device=device)
    assert float(product.min()) == 10.0
    assert float(theirs.min()) == 3.0
    borrowed = xp.from_dlpack(torch.full((LARGE,), 4.0, device="cuda"), device=device)
    doubled = borrowed * 2.0
    del borrowed
    gc.collect()
    torch.zeros(LARGE, device="cuda")
    assert float(xp.min(doubled)) == 8.0


def test_unsupported_dlpack_requests_raise(device: Device) -> None:
    ours = xp.zeros((3,), dtype=xp.float32, device=device)
    with pytest.raises(ArrayBufferError, match="got 0"):
        ours.__dlpack__(stream=0)
    with pytest.raises(ArrayBufferError, match="expected device"):
        ours.__dlpack__(dl_device=(2, 7))
    assert np.from_dlpack(xp.asarray(ours, device="cpu")).tolist() == [0.0, 0.0, 0.0]


class Holder:
    """An object with nothing but the CUDA array interface of another."""

    def __init__(self, other: object) -> None:
        self.__cuda_array_interface__ = other.__cuda_array_interface__  # type: ignore[attr-defined]
        self.keeps = other


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]
)
def test_pytorch_reads_our_cuda_array_interface(device: Device, dtype: str) -> None:
    host = np.arange(24).reshape(4, 6).astype(dtype)
    ours = xp.asarray(host, device=device)
    view = ours[1:, ::2]
    described = view.__cuda_array_interface__
    assert (described["version"], described["stream"]) == (3, 1)
    theirs = torch.as_tensor(Holder(view), device="cuda")
    assert theirs.data_ptr() == ours.buffer.pointer + view.offset
    np.testing.assert_array_equal(theirs.cpu().numpy(), host[1:, ::2])


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32", "complex64"])
def test_asarray_of_a_cuda_array_interface(device: Device, dtype: str) -> None:
    theirs = (torch.arange(40, device="cuda").reshape(5, 8) % 7).to(getattr(torch, dtype))
    ours = xp.asarray(Holder(theirs[:, 2:].T), device=device)
    assert (ours.dtype.name, ours.shape, ours.buffer.pooled) == (dtype, (6, 5), False)
    np.testing.assert_array_equal(ours.to_numpy(), theirs[:, 2:].T.cpu().numpy())
    ours[0] = 3
    device.synchronize()
    assert theirs[:, 2].tolist() == [3] * 5
    # The owner lives as long as the array.
    pointer = theirs.data_ptr()
    del theirs
    gc.collect()
    torch.ones(40, device="cuda")
    assert ours.buffer.pointer <= pointer + 2 * ours.dtype.itemsize
    assert ours[0].tolist() == [3] * 5


def test_cuda_array_interface_orders_the_streams(device: Device) -> None:
    """Long work on either side ends before the other side reads."""
    ours = xp.zeros(LARGE, dtype=xp.float32, device=device)
    for _ in range(20):
        ours += 1.0
    theirs = torch.as_tensor(Holder(ours), device="cuda")
    assert float(theirs.min()) == 20.0
    for _ in range(20):
        theirs += 1.0
    described = dict(theirs.__cuda_array_interface__, stream=1, version=3)
    holder = Holder(theirs)
    holder.__cuda_array_interface__ = described
    back = xp.asarray(holder, device=device)
    assert float(xp.min(back)) == 40.0


def test_foreign_pointers_and_types_are_refused(device: Device) -> None:
    holder = Holder(xp.zeros(3, dtype=xp.float32, device=device))
    host = np.zeros(3, np.float32)
    holder.__cuda_array_interface__ = dict(
        holder.__cuda_array_interface__, data=(host.ctypes.data, False)
    )
    with pytest.raises(AssayError, match="memory of this GPU"):
        xp.asarray(holder, device=device)
    assert not hasattr(xp.zeros(3, dtype=xp.bfloat16, device=device), "__cuda_array_interface__")
    assert not hasattr(xp.zeros(3, device="cpu"), "__cuda_array_interface__")


def test_memory_described_to_others_can_be_freed(device: Device) -> None:
    ours = xp.ones(1 << 20, dtype=xp.float32, device=device)
    theirs = torch.as_tensor(Holder(ours), device="cuda")
    total = theirs.sum()
    assert ours.buffer.exports == 1
    del theirs
    ours.free()
    assert float(total) == 1 << 20


def test_cupy_shares_memory_both_ways(device: Device) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is the other side of the exchange")
    ours = xp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), device=device)
    theirs = cupy.asarray(Holder(ours.T))
    assert theirs.data.ptr == ours.buffer.pointer
    cupy.testing.assert_array_equal(theirs, np.arange(12).reshape(3, 4).T)
    theirs *= 2
    cupy.cuda.get_current_stream().synchronize()
    assert ours.tolist() == (np.arange(12.0).reshape(3, 4) * 2).tolist()
    made = cupy.arange(10, dtype=cupy.int64)[::3]
    for source in (made, Holder(made)):
        back = xp.asarray(source, device=device)
        assert not back.buffer.pooled
        assert back.tolist() == [0, 3, 6, 9]


def test_arrays_of_a_gpu_copy_and_pickle(device: Device) -> None:
    for dtype in (xp.float32, xp.bfloat16, xp.int64):
        ours = xp.asarray(np.arange(12).reshape(3, 4), dtype=dtype, device=device)[::-1, 1:]
        assert copy.deepcopy(ours).tolist() == ours.tolist()
        loaded = pickle.loads(pickle.dumps(ours))  # noqa: S301
        assert (loaded.tolist(), loaded.device.name) == (ours.tolist(), "cuda:0")
