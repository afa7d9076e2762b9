"""Machines without CUDA: the documented error is raised, the warning is logged once."""

import importlib.util
import logging
from pathlib import Path

import pytest

from assay import _native
from assay.errors import DeviceError, UnknownNameError
from assay.runtime import Device, cuda, device

WORDS = {
    "no_driver": "CUDA driver not detected",
    "driver_failed": "CUDA driver did not start",
    "no_devices": "No GPU devices found (cuDeviceGetCount == 0)",
    "no_nvrtc": "NVRTC JIT compiler not available",
}


@pytest.fixture
def missing() -> cuda.CudaUnavailable:
    found = cuda.probe().missing
    if found is None:
        pytest.skip("this machine has a GPU that can be used")
    return found


def test_missing_gpu_raises_the_documented_error(missing: cuda.CudaUnavailable) -> None:
    assert missing.sentence == WORDS[missing.code]
    for name in ("cuda", "cuda:0"):
        with pytest.raises(DeviceError) as caught:
            Device(name)
        assert caught.value.message == missing.sentence
        assert caught.value.code == missing.code
        assert caught.value.hint == missing.hint


def test_auto_falls_back_to_cpu_and_warns_once(
    missing: cuda.CudaUnavailable, caplog: pytest.LogCaptureFixture
) -> None:
    cuda.warn_fallback.cache_clear()
    with caplog.at_level(logging.WARNING, "assay"):
        assert device("auto") is device("cpu")
        assert device("auto") is device("cpu")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{missing.sentence}. Falling back to CPU backend. hint: ")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", ""])
def test_unknown_device_names_raise(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f'unknown device "{name}"'):
        device(name)


def test_library_folders_come_from_wheels() -> None:
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("no wheel of NVIDIA's libraries is installed")
    assert any("nvidia" in folder for folder in cuda.library_folders())


def test_library_never_synchronizes_the_device() -> None:
    library = Path(_native.__file__).read_bytes()
    # The driver's functions are loaded by name, so a missing name means that it is never called.
    assert b"cuEventSynchronize" in library
    for name in (
        "cuCtxSynchronize",
        "cudaDeviceSynchronize",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemcpyHtoD_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyDtoD_v2",
        "cuMemsetD8_v2",
    ):
        assert name.encode() not in library, name
