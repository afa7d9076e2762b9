"""Errors of arrays name the operation, what was expected and what was got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay import xp
from assay.errors import AssayError


class Arrays:
    """Arrays of several dtypes on the test's device."""

    def __init__(self) -> None:
        self.f = xp.ones((2, 3), dtype=xp.float32)
        self.i = xp.ones((2, 3), dtype=xp.int32)
        self.u = xp.ones((2, 3), dtype=xp.uint64)
        self.b = xp.ones((2, 3), dtype=xp.bool)
        self.c = xp.ones((2, 3), dtype=xp.complex64)
        self.v = xp.ones(4)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda a: a.f + a.v, ValueError, "add: expected shapes that broadcast, got (2, 3), (4,)"),
        (lambda a: a.f + a.i, TypeError, "add: expected types that promote, got float32 and int32"),
        (lambda a: a.u + a.i, TypeError, "add: expected types that promote, got uint64 and int32"),
        (lambda a: a.b + a.b, TypeError, "add: expected elements of kind int or uint or float or complex, got bool"),
        (lambda a: a.i / a.i, TypeError, "divide: expected elements of kind float or complex, got int32"),
        (lambda a: a.i + 1.5, TypeError, "add: expected a scalar that fits int32, got float 1.5"),
        (lambda a: a.i + 2**40, TypeError, "add: expected a scalar that fits int32, got 1099511627776"),
        (lambda a: a.f & a.f, TypeError, "bitwise_and: expected elements of kind bool or int or uint, got float32"),
        (lambda a: a.c < a.c, TypeError, "less: expected elements of kind int or uint or float, got complex64"),
        (lambda a: xp.sin(a.i), TypeError, "sin: expected elements of kind float or complex, got int32"),
        (lambda a: xp.sin(3.0), TypeError, "sin: expected an array, got float"),
        (lambda a: xp.add(a.f, "a"), TypeError, "add: expected arrays, or an array and a number, got Array and str"),
        (lambda a: a.i**-1, TypeError, "pow: expected exponents of at least 0 for integers, got negative ones"),
        (lambda a: a.f @ a.f, ValueError, "matmul: expected equal inner extents, got 3 and 2"),
        (lambda a: a.f @ xp.ones(()), ValueError, "matmul: expected at least 1 axis"),
        (lambda a: xp.sum(a.f, axis=2), ValueError, "sum: expected an axis between -2 and 1, got 2"),
        (lambda a: xp.sum(a.f, axis=(0, 0)), ValueError, "sum: expected each axis once, got (0, 0)"),
        (lambda a: xp.max(xp.ones(0)), ValueError, "max: zero-size array"),
        (lambda a: xp.argmax(xp.ones(0)), ValueError, "argmax: expected at least one element, got shape (0,)"),
        (lambda a: xp.concat([a.f, a.v]), ValueError, "concat: expected shapes equal but on axis 0, got (2, 3), (4,)"),
        (lambda a: xp.stack([]), ValueError, "stack: expected at least one array, got none"),
        (lambda a: xp.squeeze(a.f, axis=0), ValueError, "squeeze: expected extent 1 on axis 0, got 2"),
        (lambda a: xp.take(a.v, xp.asarray([4])), IndexError, "take: expected indices between -4 and 3, got 4"),
        (lambda a: a.v[xp.asarray([-5])], IndexError, "index: expected indices between -4 and 3 on axis 0, got -5"),
        (lambda a: a.f[xp.ones(3, dtype=xp.bool)], IndexError, "index: expected a mask of shape (2,), got (3,)"),
        (lambda a: a.f[a.f], IndexError, "index: expected integers or booleans, got float32"),
        (lambda a: a.v.T, ValueError, "T: expected 2 axes, got shape (4,)"),
        (lambda a: bool(a.v), ValueError, "bool: expected a 0-d array, got shape (4,)"),
        (lambda a: int(xp.asarray(1j)), TypeError, "int: expected bool or int or uint or float, got complex128"),
        (lambda a: xp.asarray([1], dtype="float8"), TypeError, "asarray: expected an element type, got float8"),
        (lambda a: xp.astype(a.c, xp.float32), TypeError, "astype: expected a complex type"),
        (lambda a: xp.full((2,), 300, dtype=xp.int8), TypeError, "full: expected a value that fits int8, got 300"),
        (lambda a: xp.linalg.inv(a.f), ValueError, "inv: expected square matrices, got shape (2, 3)"),
        (lambda a: xp.linalg.inv(xp.zeros((2, 2))), AssayError, "inv: singular matrix"),
        (lambda a: xp.fft.fft(a.v, norm="mine"), ValueError, "fft: expected norm backward, ortho, forward, got 'mine'"),
        (lambda a: xp.arange(0, 3, 0), ValueError, "arange: expected a step other than 0, got 0"),
        (lambda a: xp.isdtype(xp.int8, "whole"), TypeError, "isdtype: expected a kind, got 'whole'"),
        (lambda a: a.v.__array_namespace__(api_version="1999.1"), AssayError, "expected a known version, got '1999.1'"),
        (lambda a: hash(a.v), TypeError, "unhashable"),
        (lambda a: 1.0 in a.v, AssayError, "in: expected xp.any(x == value)"),
    ],
)  # fmt: skip
def test_errors_name_operation_expected_and_got(
    call: Callable[[Arrays], Any], kind: type[Exception], message: str
) -> None:
    arrays = Arrays()
    with pytest.raises(kind) as caught:
        call(arrays)
    assert message in str(caught.value)


def test_setitem_raises_for_values_that_do_not_fit() -> None:
    x = xp.zeros((2, 3), dtype=xp.int32)
    for value, message in [
        (xp.ones(4, dtype=xp.int32), "setitem: expected shapes that broadcast"),
        (1.5, "setitem: expected a scalar that fits int32, got float 1.5"),
        (2**40, "setitem: expected a number that fits int32"),
        (xp.ones(3, dtype=xp.int64), "setitem: expected a value that fits int32, got int64"),
        ([1, 2, 3], "setitem: expected an array or a number, got list"),
    ]:
        with pytest.raises(AssayError) as caught:
            x[...] = value
        assert message in str(caught.value)
    with pytest.raises(TypeError, match="add in place: expected a result of type int32, got int64"):
        x += xp.ones(3, dtype=xp.int64)
    with pytest.raises(ValueError, match="add in place: expected a result of shape"):
        x += xp.ones((2, 2, 3), dtype=xp.int32)
    assert x.tolist() == [[0] * 3] * 2


def test_mixing_numpy_arrays_raises() -> None:
    v = xp.ones(4)
    for call in (lambda: v + np.ones(4), lambda: np.ones(4) + v):
        with pytest.raises(TypeError, match=r"add: expected an array of Assay, got numpy.ndarray"):
            call()
    with pytest.raises(TypeError, match=r"matmul: expected an array of Assay, got numpy.ndarray"):
        v @ np.ones(4)
    assert (v == "text") is False


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (1, 1)])
def test_arrays_without_elements_and_without_axes_work(shape: tuple[int, ...]) -> None:
    x = xp.ones(shape)
    expected = np.ones(shape)
    assert (x + 1).shape == shape
    assert np.array_equal(np.asarray(xp.sin(x)), np.sin(expected))
    assert float(xp.sum(x)) == expected.sum()
    assert xp.asarray(x, copy=True).tolist() == expected.tolist()
    assert xp.reshape(x, (-1,)).shape == (x.size,) if x.size else True
    assert np.from_dlpack(x.to_device("cpu")).shape == shape
    assert x.to_device("sim").to_device("cpu").tolist() == expected.tolist()
    assert repr(x).startswith("Array(")
    x[...] = 5.0
    assert xp.all(x == 5.0).tolist() is True
