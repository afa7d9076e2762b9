"""Group, instance and adaptive norms, leaky ReLU, snake, tanh and sigmoid against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_operations import upload

from assay import ops
from assay.errors import ShapeError

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def standardized(x: np.ndarray, groups: int, epsilon: float) -> np.ndarray:
    rows = x.astype(float).reshape(x.shape[0], groups, -1)
    variance = rows.var(-1, keepdims=True)
    return ((rows - rows.mean(-1, keepdims=True)) / np.sqrt(variance + epsilon)).reshape(x.shape)


def snake(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return x + np.sin(alpha[:, None] * x) ** 2 / alpha[:, None]


@pytest.mark.parametrize("shape", [(2, 12, 31), (1, 6, 9001), (3, 6, 1)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm_standardizes_groups(shape: tuple[int, int, int], groups: int) -> None:
    # A mean far above the deviation: differences are taken before they are squared.
    x, weight, bias = normal(*shape) + 50, normal(shape[1]), normal(shape[1])
    expected = standardized(x, groups, 1e-3) * weight[:, None] + bias[:, None]
    got = ops.group_norm(upload(x), groups, upload(weight), upload(bias), 1e-3)
    assert np.abs(got.to_numpy() - expected).max() < 2e-5 * np.abs(expected).max()


def test_norms_fuse_with_what_follows() -> None:
    x, alpha = normal(2, 8, 300), np.exp(normal(8))
    gamma, beta = normal(2, 8), normal(2, 8)
    adapted = standardized(x, 8, 1e-5) * (1 + gamma[..., None]) + beta[..., None]
    got = ops.adain(upload(x), upload(gamma), upload(beta), alpha=upload(alpha))
    assert np.abs(got.to_numpy() - snake(adapted, alpha)).max() < 1e-5
    normed = standardized(x, 8, 1e-5)
    leaky = ops.instance_norm(upload(x), slope=0.2).to_numpy()
    assert np.abs(leaky - np.where(normed < 0, 0.2 * normed, normed)).max() < 1e-5


def test_activations_of_audio_models() -> None:
    x = np.concatenate([normal(3, 5, 77), np.full((1, 5, 77), -40.0, np.float32)])
    alpha = np.array([0.1, 1, 3, 10, 40], np.float32)
    wide = x.astype(float)
    for got, expected in (
        (ops.tanh(upload(x)), np.tanh(wide)),
        (ops.sigmoid(upload(x)), 1 / (1 + np.exp(-wide))),
        (ops.leaky_relu(upload(x), 0.1), np.where(wide < 0, 0.1 * wide, wide)),
        (ops.snake(upload(x), upload(alpha)), snake(wide, alpha)),
    ):
        assert np.abs(got.to_numpy() - expected).max() < 4e-6


def test_a_sine_of_a_large_angle_is_reduced_and_infinity_has_none() -> None:
    angles = np.linspace(-8000, 8000, 20_001, dtype=np.float32)[None, None]
    one = upload(np.ones(1, np.float32))
    got = ops.snake(upload(angles), one).to_numpy() - angles.astype(float)
    # The sum with the angle rounds it: half a unit in the last place of 8000.
    assert np.abs(got - np.sin(angles.astype(float)) ** 2).max() < 3e-4
    assert np.isnan(ops.snake(upload(np.full((1, 1, 3), np.inf, np.float32)), one).to_numpy()).all()


def test_groups_that_do_not_divide_the_channels_are_named() -> None:
    with pytest.raises(ShapeError, match="divide 6 channels, got 4"):
        ops.group_norm(upload(normal(1, 6, 4)), 4)
