"""A representative subset of the array API standard's test suite, with NumPy as the oracle.

The full suite (data-apis/array-api-tests) takes minutes and is run manually; docs/design/arrays.md
lists its results.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import array_api

from assay import xp
from assay.runtime import Array, dtypes, ufuncs
from chosen_device import ON_GPU

xps = array_api.make_strategies_namespace(xp, api_version="2024.12")
few = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)

NUMPY_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atanh": "arctanh", "atan2": "arctan2", "bitwise_invert": "invert", "pow": "power",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}  # fmt: skip
STANDARD = dtypes.STANDARD

# A GPU's functions have errors up to 4 ULP, and NumPy's in single precision too.
MAX_ULP = 8 if ON_GPU else 2


def theirs(name: str) -> Any:
    return getattr(np, NUMPY_NAMES.get(name, name))


def agree(ours: Array, expected: Any, dtype: Any = None) -> None:
    found = np.asarray(ours)
    reference = np.asarray(expected)
    assert ours.shape == reference.shape
    if dtype is not None:
        assert ours.dtype is dtype
    if reference.dtype.kind == "c":
        # NumPy's scalar and vector loops differ by a few ULP in a complex part that is small beside
        # the other.
        resolution = float(np.finfo(found.dtype).eps)
        np.testing.assert_allclose(
            found, reference.astype(found.dtype), rtol=4 * resolution, atol=0
        )
    elif reference.dtype.kind == "f":
        np.testing.assert_array_max_ulp(found, reference.astype(found.dtype), MAX_ULP)
    else:
        assert np.array_equal(found, reference)


def of_kind(kinds: tuple[str, ...]) -> st.SearchStrategy[dtypes.DType]:
    return st.sampled_from([dtype for dtype in STANDARD if dtype.kind in kinds])


def arrays(dtype: dtypes.DType, shape: Any) -> st.SearchStrategy[Array]:
    # Small numbers keep integer powers and shifts defined and sums exact.
    elements: dict[str, Any] = {}
    if dtype.kind in dtypes.INTEGRAL:
        elements = {"min_value": 0, "max_value": 6}
    if dtype.kind == "float":
        elements = {"min_value": -4.0, "max_value": 4.0, "allow_subnormal": False}
    if dtype.kind == "complex":
        width = 64 if dtype is xp.complex64 else 128
        numbers = st.complex_numbers(max_magnitude=4.0, width=width, allow_subnormal=False)
        return xps.arrays(dtype, shape, elements=numbers)
    return xps.arrays(dtype, shape, elements=xps.from_dtype(dtype, **elements))


shapes = xps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@pytest.mark.parametrize("name", sorted(ufuncs.UNARY))
@given(data=st.data())
@few
def test_functions_of_one_array(name: str, data: st.DataObject) -> None:
    dtype = data.draw(of_kind(ufuncs.UNARY[name].kinds))
    x = data.draw(arrays(dtype, shapes))
    with np.errstate(all="ignore"):
        expected = theirs(name)(np.asarray(x))
    ours = getattr(xp, name)(x)
    if name == "sign" and dtype.kind == "complex":
        return
    agree(ours, expected)
    result = ufuncs.UNARY[name].result
    if result == "same":
        assert ours.dtype is dtype
    if result == "bool":
        assert ours.dtype is xp.bool


@pytest.mark.parametrize("name", sorted(ufuncs.BINARY))
@given(data=st.data())
@few
def test_functions_of_two_operands(name: str, data: st.DataObject) -> None:
    kinds = ufuncs.BINARY[name].kinds
    first = data.draw(of_kind(kinds))
    second = data.draw(of_kind(kinds).filter(lambda other: _joins(first, other, kinds)))
    drawn = data.draw(xps.mutually_broadcastable_shapes(2, max_dims=3, max_side=3))
    x1 = data.draw(arrays(first, drawn.input_shapes[0]))
    x2 = data.draw(arrays(second, drawn.input_shapes[1]))
    joined = xp.result_type(x1, x2)
    with np.errstate(all="ignore"):
        expected = theirs(name)(
            np.asarray(x1).astype(joined.storage), np.asarray(x2).astype(joined.storage)
        )
    ours = getattr(xp, name)(x1, x2)
    agree(ours, expected, xp.bool if ufuncs.BINARY[name].result == "bool" else joined)
    scalar = (
        2 if first.kind in dtypes.INTEGRAL else {"bool": True, "float": 2.0}.get(first.kind, 2j)
    )
    with np.errstate(all="ignore"):
        constant = np.asarray(scalar, first.storage)
        agree(getattr(xp, name)(x1, scalar), theirs(name)(np.asarray(x1), constant))
        agree(getattr(xp, name)(scalar, x1), theirs(name)(constant, np.asarray(x1)))


def _joins(first: dtypes.DType, second: dtypes.DType, kinds: tuple[str, ...]) -> bool:
    try:
        return xp.result_type(first, second).kind in kinds
    except TypeError:
        return False


@pytest.mark.parametrize("first", STANDARD, ids=str)
@pytest.mark.parametrize("second", STANDARD, ids=str)
def test_dtype_promotion_follows_the_standard(first: dtypes.DType, second: dtypes.DType) -> None:
    same_kind = {first.kind, second.kind} <= {"int", "uint"} or first.kind == second.kind
    floating = {first.kind, second.kind} <= {"float", "complex"}
    expected = np.promote_types(first.storage, second.storage)
    # int64 and uint64 have no common integer type.
    defined = (same_kind or floating) and not (
        expected.kind == "f" and first.kind in ("int", "uint")
    )
    if defined:
        assert xp.result_type(first, second).storage == expected
        assert xp.can_cast(first, second) == (expected == second.storage)
    else:
        with pytest.raises(TypeError, match="expected types that promote"):
            xp.result_type(first, second)
        assert not xp.can_cast(first, second)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("sum", dtypes.NUMERIC), ("prod", dtypes.NUMERIC), ("max", dtypes.REAL),
        ("min", dtypes.REAL), ("mean", ("float",)), ("var", ("float",)), ("std", ("float",)),
        ("all", dtypes.ANY), ("any", dtypes.ANY), ("count_nonzero", dtypes.ANY),
    ],
)  # fmt: skip
@given(data=st.data())
@few
def test_reductions(name: str, kinds: tuple[str, ...], data: st.DataObject) -> None:
    dtype = data.draw(of_kind(kinds))
    x = data.draw(arrays(dtype, xps.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    axes = data.draw(st.none() | xps.valid_tuple_axes(x.ndim, min_size=1))
    keepdims = data.draw(st.booleans())
    ours = getattr(xp, name)(x, axis=axes, keepdims=keepdims)
    expected = getattr(np, name)(np.asarray(x), axis=axes, keepdims=keepdims)
    assert ours.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=1e-4, atol=1e-5)


@given(data=st.data())
@few
def test_sort_search_and_set_functions(data: st.DataObject) -> None:
    dtype = data.draw(of_kind(dtypes.REAL))
    x = data.draw(arrays(dtype, xps.array_shapes(min_dims=1, max_dims=2, max_side=6)))
    base = np.asarray(x)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    descending = data.draw(st.booleans())
    ordered = xp.sort(x, axis=axis, descending=descending)
    indices = xp.argsort(x, axis=axis, descending=descending)
    expected = np.sort(base, axis=axis)
    agree(ordered, np.flip(expected, axis) if descending else expected, dtype)
    agree(xp.take_along_axis(x, indices, axis=axis), np.asarray(ordered), dtype)
    agree(xp.argmax(x, axis=axis), base.argmax(axis))
    agree(xp.unique_values(x), np.unique(base))
    every = xp.unique_all(x)
    agree(xp.take(xp.reshape(x, (-1,)), every.indices), np.asarray(every.values))
    agree(xp.take(every.values, xp.reshape(every.inverse_indices, (-1,))), base.ravel())
    assert int(xp.sum(every.counts)) == x.size
    for ours, reference in zip(xp.nonzero(x), np.nonzero(base), strict=True):
        agree(ours, reference)
    line = xp.sort(xp.reshape(x, (-1,)))
    agree(xp.searchsorted(line, x), np.searchsorted(np.asarray(line), base))


@given(data=st.data())
@few
def test_boolean_and_integer_indexing(data: st.DataObject) -> None:
    dtype = data.draw(of_kind(dtypes.ANY))
    x = data.draw(arrays(dtype, xps.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    base = np.array(np.asarray(x))
    mask = data.draw(arrays(xp.bool, x.shape[: data.draw(st.integers(1, x.ndim))]))
    agree(x[mask], base[np.asarray(mask)], dtype)
    indices = [data.draw(st.lists(st.integers(-n, n - 1), min_size=3, max_size=3)) for n in x.shape]
    key = tuple(xp.asarray(index) for index in indices)
    agree(x[key], base[tuple(np.asarray(index) for index in indices)], dtype)
    x = xp.asarray(x, copy=True)
    x[mask] = xp.zeros((), dtype=dtype)
    base[np.asarray(mask)] = 0
    agree(x, base, dtype)


@given(data=st.data())
@few
def test_concatenating_and_repeating(data: st.DataObject) -> None:
    dtype = data.draw(of_kind(dtypes.ANY))
    x = data.draw(arrays(dtype, xps.array_shapes(min_dims=1, max_dims=3, max_side=3)))
    base = np.asarray(x)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    agree(xp.concat([x, x], axis=axis), np.concatenate([base, base], axis), dtype)
    agree(xp.concat([x, x], axis=None), np.concatenate([base, base], None), dtype)
    agree(xp.stack([x, x, x], axis=axis), np.stack([base] * 3, axis), dtype)
    agree(xp.roll(x, 2, axis=axis), np.roll(base, 2, axis), dtype)
    agree(xp.repeat(x, 2, axis=axis), np.repeat(base, 2, axis), dtype)
    agree(xp.tile(x, (2, 1)), np.tile(base, (2, 1)), dtype)
    if dtype.kind != "bool":
        agree(xp.diff(x, axis=axis), np.diff(base, axis=axis), dtype)
    if dtype.kind in dtypes.REAL:
        agree(xp.clip(x, 1, 3), np.clip(base, 1, 3), dtype)
        ours = xp.cumulative_sum(x, axis=axis, include_initial=True)
        assert ours.shape[axis] == x.shape[axis] + 1


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64, xp.complex128], ids=str)
def test_linear_algebra_keeps_its_identities(dtype: Any) -> None:
    generator = np.random.default_rng(7)
    base = generator.standard_normal((3, 4, 4)) + 4 * np.eye(4)
    x = xp.asarray(base.astype(dtype.storage))
    close = {"rtol": 1e-3, "atol": 1e-4} if dtype is xp.float32 else {"rtol": 1e-9, "atol": 1e-10}
    unit = np.broadcast_to(np.eye(4), (3, 4, 4))
    pairs = {
        "inv": (xp.linalg.inv(x) @ x, unit),
        "solve": (x @ xp.linalg.solve(x, x[:, :, :2]), np.asarray(x)[:, :, :2]),
        "pinv": (xp.linalg.pinv(x) @ x, unit),
        "qr": (xp.matmul(*xp.linalg.qr(x)), np.asarray(x)),
        "det": (xp.linalg.det(x), np.linalg.det(np.asarray(x))),
        "trace": (xp.linalg.trace(x), np.trace(np.asarray(x), axis1=1, axis2=2)),
        "norm": (xp.linalg.vector_norm(x, axis=(1, 2)), np.linalg.norm(np.asarray(x), axis=(1, 2))),
        "tensordot": (xp.tensordot(x, x, axes=3), np.tensordot(base, base, 3)),
        "vecdot": (xp.vecdot(x, x), np.vecdot(np.asarray(x), np.asarray(x))),
    }
    symmetric = x + x.mT
    values, vectors = xp.linalg.eigh(symmetric)
    pairs["eigh"] = (symmetric @ vectors, np.asarray(vectors) * np.asarray(values)[:, None, :])
    u, s, vh = xp.linalg.svd(x)
    pairs["svd"] = (u @ (xp.astype(s, dtype)[:, :, None] * vh), np.asarray(x))
    lower = xp.linalg.cholesky(xp.conj(x).mT @ x)
    pairs["cholesky"] = (lower @ xp.conj(lower).mT, np.asarray(xp.conj(x).mT @ x))
    for name, (ours, expected) in pairs.items():
        np.testing.assert_allclose(np.asarray(ours), expected, **close, err_msg=name)
    assert xp.linalg.matrix_rank(x).tolist() == [4, 4, 4]


def test_transforms_invert_and_keep_energy() -> None:
    x = xp.asarray(np.random.default_rng(3).standard_normal((4, 30)))
    spectrum = xp.fft.fft(x)
    np.testing.assert_allclose(
        np.asarray(xp.real(xp.fft.ifft(spectrum))), np.asarray(x), atol=1e-12
    )
    np.testing.assert_allclose(
        np.asarray(xp.fft.irfft(xp.fft.rfft(x), n=30)), np.asarray(x), atol=1e-12
    )
    # Parseval: the energy of the spectrum equals that of the signal times the length.
    energy = float(xp.sum(xp.square(xp.abs(spectrum))))
    assert math.isclose(energy, 30 * float(xp.sum(x * x)), rel_tol=1e-12)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_expm1_of_complex_numbers_at_the_edges(kind: Any) -> None:
    inf, nan = math.inf, math.nan
    cases = {
        complex(-0.0, 0.0): complex(0.0, 0.0),
        complex(inf, 0.0): complex(inf, 0.0),
        complex(-inf, 1.0): complex(-1.0, 0.0),
        complex(-inf, inf): complex(-1.0, 0.0),
        complex(inf, inf): complex(inf, nan),
        complex(-inf, nan): complex(-1.0, 0.0),
        complex(inf, nan): complex(inf, nan),
        complex(nan, 0.0): complex(nan, 0.0),
        complex(nan, 1.0): complex(nan, nan),
    }
    found = np.asarray(xp.expm1(xp.asarray(np.asarray(list(cases), kind))))
    reference = np.asarray(list(cases.values()), kind)
    for ours, expected in ((found.real, reference.real), (found.imag, reference.imag)):
        assert np.array_equal(ours, expected, equal_nan=True)
    assert not np.signbit(found.real[0])


def test_creation_agrees_with_numpy() -> None:
    for start, stop, step in [(0, 10, 3), (10, 0, -3), (5, 5, 1), (0, 1, 0.25), (3, 0, 1)]:
        agree(xp.arange(start, stop, step), np.arange(start, stop, step))
    agree(xp.linspace(0, 1, 7, endpoint=False), np.linspace(0, 1, 7, endpoint=False))
    for k in (-2, -1, 0, 1, 3):
        agree(xp.eye(3, 4, k=k), np.eye(3, 4, k))
        agree(xp.tril(xp.ones((3, 4)), k=k), np.tril(np.ones((3, 4)), k))
    for indexing in ("xy", "ij"):
        ours = xp.meshgrid(xp.arange(2), xp.arange(3), xp.arange(4), indexing=indexing)  # type: ignore[arg-type]
        expected = np.meshgrid(np.arange(2), np.arange(3), np.arange(4), indexing=indexing)  # type: ignore[call-overload]
        for mine, other in zip(ours, expected, strict=True):
            agree(mine, other)


def test_namespace_has_every_name_of_the_standard() -> None:
    info = xp.__array_namespace_info__()
    assert xp.__array_api_version__ == "2024.12"
    assert info.capabilities()["data-dependent shapes"] is True
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert all(callable(getattr(xp, name)) for name in (*ufuncs.UNARY, *ufuncs.BINARY))
    assert len([name for name in dir(xp) if not name.startswith("_")]) >= 150
    assert str(inspect.signature(xp.clip)).startswith("(x: 'Array', /, min")
    assert xp.ones(1).__array_namespace__(api_version="2024.12") is xp


# The special cases that the standard lists for floor_divide, which NumPy does not follow.
INFINITE_QUOTIENTS = [
    (math.inf, 2.0, math.inf),
    (math.inf, -2.0, -math.inf),
    (-math.inf, 2.0, -math.inf),
    (-math.inf, -2.0, math.inf),
    (3.0, math.inf, 0.0),
    (3.0, -math.inf, -0.0),
    (-3.0, math.inf, -0.0),
    (-3.0, -math.inf, 0.0),
    (math.inf, -math.inf, math.nan),
    (math.nan, math.inf, math.nan),
    (math.inf, 0.0, math.inf),
    (7.0, -2.0, -4.0),
]


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64])
def test_floor_divide_at_infinities(dtype: dtypes.DType) -> None:
    left, right, expected = zip(*INFINITE_QUOTIENTS, strict=True)
    x, y = xp.asarray(left, dtype=dtype), xp.asarray(right, dtype=dtype)
    in_place = xp.asarray(left, dtype=dtype, copy=True)
    in_place //= y
    reference = np.asarray(expected, np.asarray(x).dtype)
    for found in (xp.floor_divide(x, y), x // y, in_place):
        np.testing.assert_array_equal(np.asarray(found), reference)
        signs = np.signbit(np.asarray(found)) | np.isnan(reference)
        np.testing.assert_array_equal(signs, np.signbit(reference) | np.isnan(reference))


def test_complex_tanh_at_infinities() -> None:
    """The zero has the sign of the imaginary part, and NumPy's that of sin(2 b)."""
    for real in (math.inf, -math.inf):
        for imaginary in (2.0, -2.0, 0.5, -0.5):
            found = np.asarray(xp.tanh(xp.asarray([complex(real, imaginary)])))[0]
            assert found.real == math.copysign(1.0, real)
            assert found.imag == 0.0
            assert math.copysign(1.0, found.imag) == math.copysign(1.0, imaginary)
