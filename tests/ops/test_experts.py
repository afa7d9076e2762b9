"""Routing, grouped GEMM and combination of experts, and sums with the residual, against NumPy."""

import numpy as np
import pytest

from assay import ops, xp
from assay.errors import AssayError
from assay.runtime import Array

RNG = np.random.default_rng(7)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def on_device(values: np.ndarray) -> Array:
    """A copy in the device's own memory."""
    return xp.asarray(values, copy=True)


def test_route_is_the_softmax_of_the_largest_logits() -> None:
    logits = array(5, 8)
    experts, weights = ops.route(on_device(logits), 3, factor=2.0)
    order = np.argsort(-logits, axis=1)[:, :3]
    chosen = np.exp(np.take_along_axis(logits, order, 1))
    np.testing.assert_array_equal(experts.to_numpy(), order)
    expected = 2 * chosen / chosen.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights.to_numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("format", ["f32", "bf16"])
def test_grouped_linear_multiplies_by_the_weights_of_each_expert(format: str) -> None:
    x, matrices, bias = array(6, 32), array(4, 16, 32), array(4, 16)
    experts = RNG.integers(0, 4, (6, 2)).astype(np.int32)
    weights = ops.pack(matrices.reshape(-1, 32), format, (64, 32), "cpu")
    got = ops.grouped_linear(
        on_device(x),
        weights,
        on_device(experts),
        experts_count=4,
        bias=on_device(bias),
        activation="relu",
    )
    rows = [np.maximum(matrices[e] @ x[i // 2] + bias[e], 0) for i, e in enumerate(experts.flat)]
    tolerance = 1e-5 if format == "f32" else 0.1
    np.testing.assert_allclose(got.to_numpy(), np.array(rows), atol=tolerance)


def test_experts_out_of_range_are_refused() -> None:
    weights = ops.pack(array(64, 32), "f32", (64, 32), "cpu")
    for wrong in (4, -2):
        experts = on_device(np.array([wrong], np.int32))
        with pytest.raises(AssayError, match="experts -1 or from 0 to below 4"):
            ops.grouped_linear(
                on_device(array(1, 32)), weights, experts, experts_count=4
            ).to_numpy()


def test_padding_has_no_experts() -> None:
    """Rows of negative slots are routed nowhere, multiply no weights and add nothing."""
    logits, slots = array(5, 4), np.array([3, -1, 0, -1, 7], np.int32)
    experts, weights = ops.route(on_device(logits), 2, slots=on_device(slots))
    real = slots >= 0
    plain, shares = ops.route(on_device(logits), 2)
    np.testing.assert_array_equal(experts.to_numpy()[real], plain.to_numpy()[real])
    np.testing.assert_array_equal(weights.to_numpy()[real], shares.to_numpy()[real])
    assert (experts.to_numpy()[~real] == -1).all()
    assert (weights.to_numpy()[~real] == 0).all()
    x, matrices, residual = array(5, 32), array(4, 8, 32), array(5, 8)
    outputs = ops.grouped_linear(
        on_device(x), ops.pack(matrices.reshape(-1, 32), "f32", (32, 32), "cpu"), experts,
        experts_count=4, out=on_device(np.full((10, 8), np.nan, np.float32)),
    )  # fmt: skip
    assert (np.isnan(outputs.to_numpy()).all(axis=1) == np.repeat(~real, 2)).all()
    got = ops.combine_experts(outputs, weights, residual=on_device(residual)).to_numpy()
    expected = residual.copy()
    for row in np.flatnonzero(real):
        for expert, share in zip(experts.to_numpy()[row], weights.to_numpy()[row], strict=True):
            expected[row] += share * (matrices[expert] @ x[row])
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_combined_experts_are_a_weighted_sum() -> None:
    outputs, weights, residual, shared = array(6, 8), array(3, 2), array(3, 8), array(3, 8)
    gates = array(3, 1)
    got = ops.combine_experts(
        on_device(outputs),
        on_device(weights),
        residual=on_device(residual),
        shared=on_device(shared),
        gates=on_device(gates),
    )
    expected = residual + (outputs.reshape(3, 2, 8) * weights[..., None]).sum(axis=1)
    expected += shared / (1 + np.exp(-gates))
    np.testing.assert_allclose(got.to_numpy(), expected, atol=1e-5)


def test_residual_sum_and_softcap() -> None:
    x, residual, weight = array(3, 16), array(3, 16), array(16)
    got = ops.add_residual(
        on_device(x), on_device(residual), norm=on_device(weight), epsilon=1e-5, factor=0.3
    )
    normed = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(got.to_numpy(), residual + 0.3 * normed, atol=1e-5)
    scaled = on_device(x)
    ops.scale(scaled, 2.0, softcap=1.5)
    np.testing.assert_allclose(scaled.to_numpy(), 1.5 * np.tanh(2 * x / 1.5), atol=1e-6)
