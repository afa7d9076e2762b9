"""bfloat16 and float16: exact where representable, else rounded to nearest even."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay import xp
from assay.runtime import Device
from assay.runtime.rounding import narrow, widen

BITS = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def value(bits: int) -> float:
    """The value of 16 bits by definition of the format: the upper half of a float32."""
    number: float = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    return number


def test_one_times_two_is_two() -> None:
    x = xp.asarray([1.0, 2.0, -3.5], dtype=xp.bfloat16)
    assert (x * 2).tolist() == [2.0, 4.0, -7.0]
    assert (x * 2).dtype is xp.bfloat16
    assert (x * x).tolist() == [1.0, 4.0, 12.25]
    x *= 2
    assert x.tolist() == [2.0, 4.0, -7.0]


def test_bfloat16_round_trips_through_float32() -> None:
    back = narrow(widen(BITS))
    is_nan = np.isnan(widen(BITS))
    assert np.array_equal(back[~is_nan], BITS[~is_nan])
    assert np.isnan(widen(back[is_nan])).all()
    assert [value(int(bits)) for bits in (0x3F80, 0xC000, 0x7F80)] == [1.0, -2.0, math.inf]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_bfloat16_rounds_to_nearest_even(number: float) -> None:
    bits = int(narrow(np.asarray([number]))[0])
    found = value(bits)
    if math.isinf(found):
        # Beyond the largest finite number by at least half a unit in the last place of 2**120.
        assert abs(number) >= float.fromhex("0x1.ffp127")
        return
    neighbors = [value(near) for near in (bits - 1, bits + 1) if 0 <= near < 1 << 16]
    error = abs(Fraction(found) - Fraction(number))
    for other in neighbors:
        if not math.isfinite(other) or math.copysign(1, other) != math.copysign(1, found):
            continue
        distance = abs(Fraction(other) - Fraction(number))
        assert error <= distance
        assert error < distance or bits % 2 == 0


def test_double_precision_is_rounded_once() -> None:
    # Just above the midpoint of two numbers, and exactly at it in single precision.
    number = (152.5 + 1e-6) / 512
    x = xp.asarray([number, -number], dtype=xp.float64)
    for rounded in (xp.astype(x, xp.bfloat16), xp.asarray([number, -number], dtype=xp.bfloat16)):
        assert xp.astype(rounded, xp.float64).tolist() == [153 / 512, -153 / 512]


def test_matmul_rounds_once() -> None:
    ours = xp.asarray(BITS[::17], copy=True)
    left = np.resize(widen(np.asarray(ours)), 512)
    right = np.resize(widen(np.asarray(ours))[::-1], 512)
    a = xp.asarray(left, dtype=xp.bfloat16)
    b = xp.asarray(right, dtype=xp.bfloat16)
    with np.errstate(all="ignore"):
        exact = left.astype(np.float64) * right.astype(np.float64)
    expected = widen(narrow(exact.astype(np.float32)))
    assert np.array_equal(np.asarray((a * b).tolist(), np.float32), expected, equal_nan=True)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (xp.bfloat16, xp.bfloat16, xp.bfloat16),
        (xp.bfloat16, xp.float16, xp.float32),
        (xp.bfloat16, xp.float32, xp.float32),
        (xp.float16, xp.float32, xp.float32),
        (xp.float16, xp.float64, xp.float64),
        (xp.bfloat16, xp.complex64, xp.complex64),
    ],
)
def test_half_precision_promotes_upward(first: Any, second: Any, joined: Any) -> None:
    assert xp.result_type(first, second) is joined
    sum_ = xp.ones(2, dtype=first) + xp.ones(2, dtype=second)
    assert sum_.dtype is joined
    assert sum_.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", [xp.float16, xp.bfloat16], ids=str)
def test_namespace_supports_half_precision(dtype: Any) -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)
    assert (x @ x).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert xp.sum(x).dtype is dtype
    assert float(xp.sum(x)) == 10.0
    assert float(xp.mean(x)) == 2.5
    assert xp.sort(x, descending=True).tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert xp.argmax(x).tolist() == 3
    assert xp.concat([x, x], axis=1).shape == (2, 4)
    assert xp.cumulative_sum(x, axis=0).tolist() == [[1.0, 2.0], [4.0, 6.0]]
    assert x[x > 1.5].tolist() == [2.0, 3.0, 4.0]
    assert xp.where(x > 2.0, x, 0.0).dtype is dtype
    assert xp.linalg.inv(xp.eye(2, dtype=dtype) * 4).tolist() == [[0.25, 0.0], [0.0, 0.25]]
    assert xp.take(x, xp.asarray([1]), axis=0).tolist() == [[3.0, 4.0]]
    assert xp.unique_values(x).dtype is dtype
    x[0, 0] = 0.1
    assert float(x[0, 0]) == pytest.approx(0.1, rel=xp.finfo(dtype).eps)
    assert xp.astype(x, xp.float64).dtype is xp.float64
    assert xp.full((2,), 1.0, dtype=dtype).tolist() == [1.0, 1.0]
    assert xp.linspace(0, 1, 3, dtype=dtype).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 70, 33), (5, 64, 130), (40, 257, 48)])
@pytest.mark.parametrize("types", ["bb", "fb", "bf"])
@pytest.mark.parametrize("turned", [False, True])
def test_bfloat16_matmul_matches_its_values(
    m: int, k: int, n: int, types: str, turned: bool
) -> None:
    generator = np.random.default_rng(m * k * n)
    kinds = {"b": xp.bfloat16, "f": xp.float32}
    a = xp.asarray(generator.standard_normal((m, k)), dtype=kinds[types[0]])
    weights = generator.standard_normal((n, k) if turned else (k, n))
    b = xp.asarray(weights, dtype=kinds[types[1]])
    b = b.T if turned else b
    exact = np.asarray(a.tolist()) @ np.asarray(b.tolist())
    scale = np.abs(np.asarray(a.tolist())) @ np.abs(np.asarray(b.tolist()))
    found = a @ b
    assert found.dtype is xp.result_type(a, b)
    # Half a unit in the last place of the result, and intermediate single precision.
    rounding = 2.0**-8 if found.dtype is xp.bfloat16 else 0.0
    error = np.abs(np.asarray(found.tolist()) - exact)
    assert (error <= rounding * np.abs(exact) + 2.0**-20 * scale).all()
    row = a[0, :] @ b
    assert row.shape == (n,)
    assert (a @ b[:, 0]).shape == (m,)
    assert np.allclose(row.tolist(), exact[0], rtol=rounding, atol=2.0**-20 * scale.max())


def test_matmul_of_strided_views_and_on_streams(own: Device) -> None:
    a = xp.reshape(xp.astype(xp.arange(12, device=own), xp.bfloat16), (3, 4))
    expected = [[float(value) for value in row] for row in np.arange(12).reshape(3, 4)]
    stream = own.stream()
    with stream:
        product = a[::2, ::-1] @ a[::2, ::-1].T
        sliced_product = a[:, 1:3] @ a[:2, :]
    own.take_records()
    reference = np.asarray(expected)
    assert product.tolist() == (reference[::2] @ reference[::2].T).tolist()
    assert sliced_product.tolist() == (reference[:, 1:3] @ reference[:2]).tolist()
    assert (a[:0] @ a.T).shape == (0, 3)


@pytest.mark.parametrize("dtype", [xp.float16, xp.bfloat16, xp.float32, xp.float64], ids=str)
def test_finfo_and_iinfo_limits(dtype: Any) -> None:
    limits = xp.finfo(dtype)
    one = xp.ones((), dtype=dtype)
    assert float(one + limits.eps) - 1.0 == limits.eps
    assert float(one + limits.eps / 2) == 1.0
    assert math.isinf(float(xp.asarray(limits.max, dtype=dtype) * 2))
    assert float(xp.asarray(limits.max, dtype=dtype)) == limits.max == -limits.min
    assert float(xp.asarray(limits.smallest_normal, dtype=dtype)) == limits.smallest_normal
