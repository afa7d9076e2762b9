"""`with device:` sets the default device of new arrays."""

import threading

import numpy as np
import pytest

from assay import xp
from assay.errors import AssayError
from assay.runtime import Device, device
from chosen_device import cpu_only

pytestmark = cpu_only


def test_arrays_are_created_on_the_innermost_device() -> None:
    outer, inner = Device("sim"), Device("cpu")
    assert xp.zeros(3).device is device("cpu")
    with outer:
        assert device() is outer
        assert xp.zeros(3).device is outer
        assert xp.asarray([1, 2]).device is outer
        assert xp.__array_namespace_info__().default_device() is outer
        with inner:
            assert xp.arange(4).device is inner
        assert xp.linspace(0, 1, 5).device is outer
        assert xp.ones(2, device="cpu").device is device("cpu")
        # `zeros_like` uses the device of its argument.
        assert xp.zeros_like(xp.ones(2, device="cpu")).device is device("cpu")
    assert xp.zeros(3).device is device("cpu")


def test_current_device_is_per_thread() -> None:
    seen = []
    with Device("sim"):
        thread = threading.Thread(target=lambda: seen.append(xp.zeros(2).device.name))
        thread.start()
        thread.join()
    assert seen == ["cpu"]


def test_cpu_has_no_array_kernels() -> None:
    x, y = (xp.asarray(np.ones(4, np.float32), copy=True) for _ in range(2))
    assert not x.device.capabilities.has_array_kernels
    stream = x.device.current_stream()._native
    with pytest.raises(AssayError, match="expected an operation with a CPU kernel"):
        x.device._context.elementwise("add", 0, x.dtype.element, (x, x), y, stream, 0.0)


def test_operate_refuses_strided_operations() -> None:
    context = device("cpu")._context
    stream = device("cpu").current_stream()._native
    with pytest.raises(AssayError, match="expected an operation of dense operands"):
        context.operate("elementwise", [], [], stream, label="x", bytes=0, flops=0.0)
