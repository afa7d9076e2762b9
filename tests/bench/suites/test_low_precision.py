"""FP8, INT8 and INT4 references, against the OCP specification and error bounds."""

import numpy as np
import pytest

from assay.bench.suites import low_precision


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (0x00, 0.0), (0x01, 2.0**-9), (0x07, 7 * 2.0**-9), (0x08, 2.0**-6), (0x38, 1.0), (0x3C, 1.5),
        (0x40, 2.0), (0x7E, 448.0), (0xB8, -1.0), (0xFE, -448.0), (0x7F, np.nan), (0xFF, np.nan),
    ],
)  # fmt: skip
def test_e4m3_values_match_the_specification(code: int, value: float) -> None:
    """OCP 8-bit Floating Point Specification 1.0, table 1."""
    np.testing.assert_equal(low_precision.e4m3()[code], value)


def test_rounding_is_to_nearest_even() -> None:
    source = np.random.default_rng(1)
    known = low_precision.e4m3()[:127]
    middle = (known[:-1] + known[1:]) / 2
    drawn = [source.normal(size=3000) * 100, source.normal(size=500) * 1e-3, middle, -middle]
    values = np.concatenate([*drawn, [0.0, -0.0]]).clip(-448, 448)
    distance = np.abs(np.abs(values)[:, None] - known)
    nearest = distance == distance.min(axis=1, keepdims=True)
    # Ties go to the even mantissa.
    even = np.argmax(nearest & (np.arange(127) % 2 == 0), axis=1)
    expected = np.where(nearest.sum(axis=1) == 2, even, np.argmax(nearest, axis=1))
    got = low_precision.to_e4m3(values)
    np.testing.assert_array_equal(got & 127, expected)
    np.testing.assert_array_equal(got >> 7, np.signbit(values))
    assert low_precision.to_e4m3(np.array([1e9])) == 0x7E


def test_int8_and_int4_errors_are_at_most_half_a_step() -> None:
    values = np.random.default_rng(2).normal(size=(7, 256)).astype(np.float32)
    codes, scales, stored = low_precision.int8_rows(values)
    assert (np.abs(stored - values) <= scales[:, None] * 0.501).all()
    assert np.abs(codes).max() == 127
    once = low_precision.int4_groups(values, 128)
    groups = values.reshape(7, 2, 128)
    step = (groups.max(axis=2) - groups.min(axis=2)) / 15
    error = np.abs(once - values).reshape(7, 2, 128).max(axis=2)
    assert (error <= step * 0.51 + 1e-3).all()
    np.testing.assert_allclose(low_precision.int4_groups(once, 128), once, atol=1e-6)
