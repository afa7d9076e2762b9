"""User kernels without a GPU: creation, argument checks, and the CPU function."""

from typing import Any

import numpy as np
import pytest

import assay
from assay import xp
from assay.errors import AssayError, DeviceError, DTypeError, InputError, ShapeError

SOURCE = """
extern "C" __global__ void add(const float* a, const float* b, float* out, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + by * b[i];
}
"""


def on_host(a: Any, b: Any, out: Any, by: float, n: int) -> None:
    out[:n] = a[:n] + by * b[:n]


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_cpu_function_runs_as_an_operation(device: str) -> None:
    add = assay.jit.kernel(SOURCE, cpu=on_host)
    a = xp.arange(5, dtype=xp.float32, device=device)
    out = xp.zeros(5, dtype=xp.float32, device=device)
    add(a, a, out, 0.5, 4)
    np.testing.assert_array_equal(np.asarray(out), [0, 1.5, 3, 4.5, 0])
    records = a.device.take_records().records
    assert "add" in [record.name for record in records]


def test_without_nvrtc_launching_raises_no_nvrtc() -> None:
    add = assay.jit.kernel(SOURCE)
    a = xp.zeros(4, dtype=xp.float32)
    with pytest.raises(DeviceError, match="NVRTC JIT compiler not available") as caught:
        add(a, a, a, 1.0, 4)
    assert caught.value.code == "no_nvrtc"
    assert "cpu= function" in str(caught.value.hint)


def test_arguments_are_checked_before_anything_is_launched() -> None:
    add = assay.jit.kernel(SOURCE, cpu=on_host, shapes={"a": ["n"], "b": ["n"], "out": ["n"]})
    a, longer = (xp.zeros(count, dtype=xp.float32) for count in (4, 5))
    table: list[tuple[tuple[Any, ...], type[AssayError], str]] = [
        ((a, a, a, 1.0), InputError, "expected 5 arguments (a, b, out, by, n), got 4"),
        ((a, a, [0.0], 1.0, 4), DTypeError, "expected an array for out, got list"),
        ((a, a, a, 1.0, 4.5), DTypeError, "expected a whole number for n (int), got 4.5"),
        (
            (a, a, a, 1.0, 2**31),
            DTypeError,
            "expected a whole number from -2147483648 to 2147483647 for n (int), got 2147483648",
        ),
        ((a, a, a, "1", 4), DTypeError, "expected a number for by (float), got '1'"),
        ((a, a, a, None, 4), DTypeError, "expected a number for by (float), got None"),
        (
            (a, xp.zeros(4, dtype=xp.float64), a, 1.0, 4),
            DTypeError,
            "expected float32 for b (float*), got float64",
        ),
        ((longer[::2], a, a, 1.0, 4), ShapeError, "expected a to be C-contiguous"),
        ((a, longer, a, 1.0, 4), ShapeError, "expected shape (n) for b with n = 4, got (5,)"),
        ((a, a, a, 1.0, 3), ShapeError, "expected shape (n) for a with n = 3, got (4,)"),
    ]
    for arguments, error, message in table:
        with pytest.raises(error) as caught:
            add(*arguments)
        assert message in caught.value.message
    add(a, a, a, 1.0, 4)
    for extents in ({"grid": 0}, {"block": (8, 0)}, {"grid": (1, 1, 1, 1)}):
        with pytest.raises(InputError, match="expected one to three extents of at least 1"):
            add(a, a, a, 1.0, 4, **extents)


def test_kernel_repr_and_shape_checks() -> None:
    assert repr(assay.jit.kernel("__global__ void f(int* x, float y) {}")) == (
        "Kernel(f(int* x, float y))"
    )
    with pytest.raises(InputError, match='got "y"'):
        assay.jit.kernel("__global__ void f(int* x, float y) {}", shapes={"y": ["n"]})
