"""Convolutions against sums over windows in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_operations import upload

from assay import ops
from assay.errors import AssayError

RNG = np.random.default_rng(36)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def windows(x: np.ndarray, kernel: int, stride: int, dilation: int) -> np.ndarray:
    """Windows along the last axis, as a last axis of their own."""
    count = (x.shape[-1] - dilation * (kernel - 1) - 1) // stride + 1
    at = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation
    return x[..., at]


def reference_1d(
    x: np.ndarray,
    weight: np.ndarray,
    stride: int,
    pads: tuple[int, int],
    dilation: int,
    groups: int,
) -> np.ndarray:
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), pads))
    seen = windows(padded, weight.shape[2], stride, dilation)
    parts = zip(np.split(seen, groups, 1), np.split(weight.astype(float), groups, 0), strict=True)
    return np.concatenate([np.einsum("nctk,fck->nft", part, taps) for part, taps in parts], 1)


def assert_close(got: np.ndarray, expected: np.ndarray, relative: float = 2e-6) -> None:
    assert got.shape == expected.shape
    assert np.abs(got - expected).max(initial=0) <= relative * np.abs(expected).max(initial=1e-30)


ONE_DIMENSION = [
    # batch, channels, length, filters, kernel, stride, padding, dilation, groups
    (1, 80, 100, 37, 3, 1, (1, 1), 1, 1),
    (2, 16, 101, 24, 3, 2, (1, 1), 1, 1),
    (1, 24, 67, 13, 11, 1, (25, 25), 5, 1),
    (3, 8, 5, 16, 3, 1, (1, 1), 1, 1),
    (2, 1, 700, 20, 127, 64, (0, 0), 1, 1),
    (1, 12, 40, 18, 4, 3, (0, 5), 2, 3),
    (2, 10, 60, 10, 5, 1, (2, 2), 1, 10),
    (1, 10, 9000, 10, 7, 2, (3, 3), 2, 10),
    (1, 33, 50, 1, 1, 1, (0, 0), 1, 1),
    (2, 12, 20, 16, 5, 2, (9, 0), 3, 2),
    (1, 4, 1, 5, 1, 1, (0, 0), 1, 1),
]


@pytest.mark.parametrize(
    ("batch", "channels", "length", "filters", "kernel", "stride", "pads", "dilation", "groups"),
    ONE_DIMENSION,
)
def test_conv1d_sums_windows(
    batch: int, channels: int, length: int, filters: int, kernel: int, stride: int,
    pads: tuple[int, int], dilation: int, groups: int,
) -> None:  # fmt: skip
    x, weight = normal(batch, channels, length), normal(filters, channels // groups, kernel)
    bias = normal(filters)
    expected = reference_1d(x, weight, stride, pads, dilation, groups)
    options = {"stride": stride, "padding": pads, "dilation": dilation, "groups": groups}
    assert_close(ops.conv1d(upload(x), upload(weight), **options).to_numpy(), expected)
    biased = expected + bias[:, None]
    residual = normal(*expected.shape)
    got = ops.conv1d(
        upload(x), upload(weight), upload(bias), activation="relu", residual=upload(residual),
        **options,
    )  # fmt: skip
    assert_close(got.to_numpy(), np.maximum(biased, 0) + residual)
    without_batch = ops.conv1d(upload(x[0]), upload(weight), upload(bias), **options)
    assert_close(without_batch.to_numpy(), biased[0])


@pytest.mark.parametrize(
    ("shape", "kernel", "filters", "stride", "padding", "dilation", "groups"),
    [
        ((2, 3, 40, 50), (3, 3), 16, 1, 1, 1, 1),
        ((1, 8, 17, 60), (5, 3), 12, (2, 1), (2, 0), (1, 2), 2),
        ((1, 6, 30, 9), (3, 2), 6, 2, 1, 1, 6),
        ((2, 4, 7, 8), (3, 3), 10, (1, 2), (0, 1), 1, 1),
    ],
)
def test_conv2d_sums_windows(
    shape: tuple[int, ...], kernel: tuple[int, int], filters: int, stride: int | tuple[int, int],
    padding: int | tuple[int, int], dilation: int | tuple[int, int], groups: int,
) -> None:  # fmt: skip
    def both(value: int | tuple[int, int]) -> tuple[int, int]:
        return value if isinstance(value, tuple) else (value, value)

    x, weight = normal(*shape), normal(filters, shape[1] // groups, *kernel)
    (down, across), (spread_down, spread_across) = both(stride), both(dilation)
    (top, left) = both(padding)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (top, top), (left, left)))
    seen = windows(padded, kernel[1], across, spread_across)
    seen = windows(seen.transpose(0, 1, 3, 4, 2), kernel[0], down, spread_down)
    parts = zip(np.split(seen, groups, 1), np.split(weight.astype(float), groups, 0), strict=True)
    expected = np.concatenate([np.einsum("ncwkhj,fcjk->nfhw", a, b) for a, b in parts], 1)
    got = ops.conv2d(
        upload(x), upload(weight), stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    assert_close(got.to_numpy(), expected)


@pytest.mark.parametrize(
    ("batch", "channels", "length", "filters", "kernel", "stride", "padding", "extra", "dilation", "groups"),
    [
        (1, 32, 50, 16, 20, 10, 5, 0, 1, 1),
        (2, 12, 33, 10, 12, 6, 3, 0, 1, 1),
        (1, 10, 17, 10, 3, 2, 1, 1, 1, 10),
        (1, 22, 30, 1, 20, 5, 10, 0, 1, 1),
        (2, 8, 9, 12, 3, 4, 0, 2, 2, 2),
        (1, 6, 1, 5, 2, 5, 0, 0, 1, 1),
    ],
)  # fmt: skip
def test_conv_transpose1d_adds_every_sample_to_what_it_reaches(
    batch: int, channels: int, length: int, filters: int, kernel: int, stride: int, padding: int,
    extra: int, dilation: int, groups: int,
) -> None:  # fmt: skip
    x, weight = normal(batch, channels, length), normal(channels, filters // groups, kernel)
    bias = normal(filters)
    whole = (length - 1) * stride + dilation * (kernel - 1) + extra + 1
    expected = np.zeros((batch, filters, whole))
    for group in range(groups):
        inputs = slice(group * channels // groups, (group + 1) * channels // groups)
        outputs = slice(group * filters // groups, (group + 1) * filters // groups)
        for tap in range(kernel):
            end = tap * dilation + (length - 1) * stride + 1
            expected[:, outputs, tap * dilation : end : stride] += np.einsum(
                "nct,cf->nft", x[:, inputs].astype(float), weight[inputs, :, tap]
            )
    expected = expected[..., padding : whole - padding] + bias[:, None]
    got = ops.conv_transpose1d(
        upload(x), upload(weight), upload(bias), stride=stride, padding=padding,
        output_padding=extra, dilation=dilation, groups=groups,
    )  # fmt: skip
    assert_close(got.to_numpy(), expected)


def test_a_precision_has_its_bits_at_least() -> None:
    x, weight = normal(1, 96, 700), normal(64, 96, 7)
    expected = reference_1d(x, weight, 1, (3, 3), 1, 1)
    got = ops.conv1d(upload(x), upload(weight), padding=3, precision="high").to_numpy()
    assert_close(got, expected, 2**-16)
    got = ops.conv1d(upload(x), upload(weight), padding=3, precision="medium").to_numpy()
    assert_close(got, expected, 2**-7)
    upward = normal(96, 64, 6)
    high, highest = (
        ops.conv_transpose1d(upload(x), upload(upward), stride=3, precision=precision).to_numpy()
        for precision in ("high", "highest")
    )
    assert_close(high, highest, 2**-16)


def test_a_convolution_counts_its_products(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr("assay.ops.convolutions.call", lambda *given: counted.append(given[4]))
    x, weight = upload(normal(2, 6, 40)), upload(normal(8, 3, 5))
    ops.conv1d(x, weight, groups=2)
    assert counted[0].flops == 2 * 2 * 36 * 8 * 15
    assert counted[0].bytes == x.nbytes + weight.nbytes + 2 * 8 * 36 * 4


@pytest.mark.parametrize(
    ("shape", "options", "part"),
    [
        ((1, 4, 2), {}, "at least 3 elements"),
        ((1, 5, 9), {}, "weight of channels"),
        ((4,), {}, "axes"),
        ((1, 4, 9), {"stride": 0}, "stride"),
        ((1, 4, 9), {"padding": (1, 2, 3)}, "padding"),
        ((1, 4, 9), {"activation": "swiglu"}, "activation"),
        ((1, 4, 9), {"precision": "low"}, "highest or high or medium, got 'low'"),
    ],
)
def test_bad_input_is_named(shape: tuple[int, ...], options: dict[str, object], part: str) -> None:
    with pytest.raises(AssayError, match=part):
        ops.conv1d(upload(normal(*shape)), upload(normal(2, 4, 3)), **options)  # type: ignore[arg-type]
