"""Views are arithmetic on shapes and strides; NumPy's views are the oracle."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as nps

from assay import xp
from assay.errors import IndexingError, ShapeError
from assay.runtime import Array
from assay.runtime.layout import reshape
from chosen_device import ON_GPU

shapes = nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def number(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def agree(ours: Array, theirs: np.ndarray[Any, Any]) -> None:
    assert ours.shape == theirs.shape
    assert np.array_equal(np.asarray(ours), theirs)


@given(st.data())
def test_basic_indexing_matches_numpy(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    base = number(shape)
    key = data.draw(nps.basic_indices(shape, allow_newaxis=True))
    theirs = base[key]
    ours = xp.asarray(base)[key]
    agree(ours, theirs)
    if theirs.size and isinstance(theirs, np.ndarray) and not ON_GPU:
        assert np.asarray(ours).ctypes.data == theirs.ctypes.data


@given(st.data())
def test_setitem_matches_numpy(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    theirs = number(shape)
    ours = xp.asarray(theirs, copy=True)
    key = data.draw(nps.basic_indices(shape, allow_newaxis=True))
    value = number(np.shape(theirs[key])) + 100
    theirs[key] = value
    ours[key] = xp.asarray(value)
    agree(ours, theirs)


@given(st.data())
def test_reshape_copies_exactly_when_numpy_does(data: st.DataObject) -> None:
    shape = data.draw(nps.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=6))
    base = number(shape)
    axes = data.draw(st.permutations(range(base.ndim)))
    steps = data.draw(st.tuples(*(st.sampled_from([1, 1, 2, -1]) for _ in shape)))
    theirs = base.transpose(axes)[tuple(slice(None, None, step) for step in steps)]
    factors = data.draw(st.permutations(_prime_factors(theirs.size)))
    cut = data.draw(st.integers(0, len(factors)))
    target = (math.prod(factors[:cut]), *factors[cut:])
    ours = xp.asarray(theirs)
    agree(xp.reshape(ours, target), theirs.reshape(target))
    if ON_GPU:
        # An intermediate copy is contiguous.
        return
    found = reshape(ours.layout, target, 4)
    try:
        np.reshape(theirs, target, copy=False)
        assert found is not None
    except ValueError:
        assert found is None


def _prime_factors(number: int) -> list[int]:
    factors: list[int] = []
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors


@given(nps.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=4))
def test_broadcasting_matches_numpy(shapes: Any) -> None:
    bases = [number(shape) for shape in shapes.input_shapes]
    ours = xp.broadcast_arrays(*(xp.asarray(base) for base in bases))
    for mine, theirs in zip(ours, np.broadcast_arrays(*bases), strict=True):
        agree(mine, theirs)


@given(nps.array_shapes(min_dims=2, max_dims=4, max_side=4), st.data())
def test_permuting_axes_matches_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    base = number(shape)
    x = xp.asarray(base)
    axes = tuple(data.draw(st.permutations(range(-base.ndim, 0))))
    agree(xp.permute_dims(x, axes), base.transpose(axes))
    count = data.draw(st.integers(1, base.ndim))
    agree(
        xp.moveaxis(x, axes[:count], tuple(range(count))),
        np.moveaxis(base, axes[:count], range(count)),
    )
    agree(xp.flip(x, axis=axes[0]), np.flip(base, axes[0]))
    agree(x.mT, np.swapaxes(base, -1, -2))
    agree(xp.expand_dims(x, axis=axes[0]), np.expand_dims(base, axes[0]))
    agree(xp.linalg.diagonal(x, offset=-1), np.diagonal(base, -1, -2, -1))


@pytest.mark.parametrize("shift", [1, 3, 7])
def test_overlapping_assignment_copies_first(shift: int) -> None:
    theirs = np.arange(10)
    x = xp.asarray(theirs, copy=True)
    x[shift:] = x[:-shift]
    assert x.tolist() == [*range(shift), *range(10 - shift)]
    y = xp.asarray(theirs, copy=True)
    y += y[::-1]
    assert y.tolist() == [9] * 10


PARTS = [0, 2, -2, slice(None), slice(None, None, -1), slice(1, 3), slice(None, None, 2)]


def test_overlapping_strided_assignment_matches_numpy() -> None:
    keys = list(itertools.product(PARTS, PARTS))
    for to, of in itertools.product(keys, keys):
        theirs = number((3, 3))
        ours = xp.asarray(theirs, copy=True)
        # NumPy's assignment without a copy is no oracle: it reads a column while it writes a row
        # that crosses it.
        part = theirs[of].copy()
        try:
            theirs[to] = part
        except ValueError:
            with pytest.raises((IndexingError, ShapeError)):
                ours[to] = ours[of]
        else:
            ours[to] = ours[of]
            agree(ours, theirs)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (5, IndexingError, "expected an index between -3 and 2 on axis 0, got 5"),
        ((0, 0, 0), IndexingError, "expected at most 2 indices for shape (3, 4), got 3"),
        ((..., ...), IndexingError, "expected at most one ellipsis, got several"),
        (1.5, IndexingError, "expected integers, slices, ..., None or arrays, got float"),
        ([0, 1], IndexingError, "expected integers, slices, ..., None or arrays, got list"),
        ("a", IndexingError, "expected integers, slices, ..., None or arrays, got str"),
    ],
)
def test_invalid_indices_are_named(key: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        xp.zeros((3, 4))[key]
    assert isinstance(caught.value, IndexError)
    assert message in str(caught.value)


def test_writing_a_broadcast_view_raises() -> None:
    view = xp.broadcast_to(xp.zeros(3), (2, 3))
    with pytest.raises(ShapeError, match="setitem: expected distinct memory for every element"):
        view[...] = 1.0
    with pytest.raises(ShapeError, match="add: expected distinct memory for every element"):
        view += 1.0
    assert view.tolist() == [[0.0] * 3] * 2


def test_invalid_shapes_raise() -> None:
    with pytest.raises(ShapeError, match="zeros: expected extents of at least 0"):
        xp.zeros((2, -1))
    with pytest.raises(ShapeError, match="empty: expected at most"):
        xp.empty((1 << 40, 1 << 40))
    with pytest.raises(ShapeError, match="reshape: expected a shape of 6 elements"):
        xp.reshape(xp.zeros(6), (4, 2))
    with pytest.raises(BufferError, match="reshape: expected a contiguous layout"):
        xp.reshape(xp.zeros((2, 3)).T, (6,), copy=False)
