"""The CUDA array interface, checked without a GPU; tests/gpu exchanges memory with PyTorch, CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as strategies

from assay import xp
from assay.errors import AssayError
from assay.runtime import cuda, dtypes
from assay.runtime.cuda_array_interface import parse
from chosen_device import cpu_only

VALID: dict[str, Any] = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3}


class Holder:
    """An object with nothing but the interface."""

    def __init__(self, interface: object) -> None:
        self.__cuda_array_interface__ = interface


def test_contiguous_by_default() -> None:
    found = parse(VALID)
    assert (found.shape, found.strides, found.dtype.name) == ((2, 3), (12, 4), "float32")
    assert (found.pointer, found.writable, found.stream) == (4096, True, None)
    assert found.span() == (0, 24)
    assert parse(VALID | {"strides": None, "stream": 2}).stream == 2
    assert not parse(VALID | {"data": (4096, True)}).writable
    assert parse(VALID | {"shape": (0, 3), "data": (0, False)}).span() == (0, 0)


@given(strategies.array_shapes(min_dims=0, max_dims=3, min_side=1), st.data())
def test_span_is_that_of_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    key = tuple(
        slice(None, None, data.draw(st.sampled_from([1, 2, -1, -3]))) for _ in range(len(shape))
    )
    # Ellipsis, since an empty key of a 0-d array gives a scalar, which is a copy.
    view = np.zeros(shape, np.int16)[(*key, ...)]
    described = dict(view.__array_interface__)
    if described["strides"] is None:
        described["strides"] = view.strides
    found = parse(described)
    low, high = np.lib.array_utils.byte_bounds(view)
    below, nbytes = found.span()
    assert (found.pointer - below, nbytes) == (low, high - low)


@pytest.mark.parametrize("dtype", dtypes.STANDARD, ids=str)
def test_type_strings_are_those_of_numpy(dtype: dtypes.DType) -> None:
    assert parse(VALID | {"typestr": dtype.storage.str}).dtype is dtype


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shape": ...}, '"shape"'),
        ({"data": ...}, '"data"'),
        ({"shape": (2.0, 3)}, "shape as a tuple of integers"),
        ({"shape": (2, -3)}, "extents"),
        ({"typestr": ">f4"}, "typestr"),
        ({"typestr": "<V2"}, "typestr"),
        ({"typestr": "|f4"}, "typestr"),
        ({"typestr": None}, "typestr"),
        ({"strides": (4,)}, "2 strides"),
        ({"strides": (12, 3)}, "whole elements"),
        ({"strides": (-(2**40), 4)}, "address range"),
        ({"shape": (2**40, 2**40)}, "address range"),
        ({"data": (0, False)}, "a pointer, got 0"),
        ({"data": (-1, False)}, r"\(pointer, read_only\)"),
        ({"data": b"bytes"}, r"\(pointer, read_only\)"),
        ({"mask": object()}, "mask"),
        ({"stream": 0}, "stream None, 1, 2"),
        ({"stream": "main"}, "stream None, 1, 2"),
    ],
)
def test_invalid_interfaces_are_refused(changes: dict[str, Any], named: str) -> None:
    changed = {key: value for key, value in (VALID | changes).items() if value is not ...}
    with pytest.raises(AssayError, match=named):
        parse(changed)
    with pytest.raises(AssayError):
        parse([changed])


@cpu_only
def test_arrays_of_the_host_have_no_interface() -> None:
    assert not hasattr(xp.ones(3), "__cuda_array_interface__")


@cpu_only
@pytest.mark.skipif(bool(cuda.names()), reason="there is a GPU")
def test_without_a_gpu_the_missing_part_is_named() -> None:
    with pytest.raises(AssayError, match=r"CUDA|driver|libcuda"):
        xp.asarray(Holder(VALID))
