"""Fused layers of an Evoformer block against NumPy in double precision, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from assay import ops, xp
from assay.errors import AssayError, InputError, ShapeError
from assay.runtime.array import Array

Values = npt.NDArray[np.float32]
EPSILON = 1e-5


def array(values: Values) -> Array:
    return xp.asarray(values, copy=True)


def draw(seed: int, *shape: int, scale: float = 1.0) -> Values:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def norm(seed: int, width: int) -> Values:
    """Weight and bias."""
    return np.stack([1 + draw(seed, width, scale=0.2), draw(seed + 1, width, scale=0.2)])


def pair(norm: Values) -> tuple[Array, Array]:
    return array(norm[0]), array(norm[1])


def layer_norm(x: npt.NDArray[Any], norm: Values) -> npt.NDArray[np.float64]:
    wide = x.astype(np.float64)
    centered = wide - wide.mean(axis=-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
    normed: npt.NDArray[np.float64] = scaled * norm[0] + norm[1]
    return normed


def sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    value: npt.NDArray[np.float64] = 1.0 / (1.0 + np.exp(-x))
    return value


def assert_close(got: Array, expected: npt.NDArray[np.float64]) -> None:
    __tracebackhide__ = True
    np.testing.assert_allclose(got.to_numpy(), expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("shape", "outputs"), [((2, 5, 7, 48), 40), ((1, 16, 16, 32), 4), ((1, 3, 50, 130), 33)]
)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_projections_are_channel_by_channel(
    shape: tuple[int, ...], outputs: int, gated: bool, transposed: bool
) -> None:
    inputs = shape[-1]
    x, weights, gates = (
        draw(1, *shape, scale=3),
        draw(2, outputs, inputs),
        draw(3, outputs, inputs),
    )
    mask = (draw(4, *shape[:3]) > 0).astype(np.float32)
    normed = norm(5, inputs)
    got = ops.channel_projection(
        array(x),
        pair(normed),
        array(weights),
        array(gates) if gated else None,
        mask=array(mask) if gated else None,
        transposed=transposed,
        epsilon=EPSILON,
    )
    rows = layer_norm(x, normed)
    expected = rows @ weights.T.astype(np.float64)
    if gated:
        expected = expected * sigmoid(rows @ gates.T.astype(np.float64)) * mask[..., None]
    axes = (0, 3, 2, 1) if transposed else (0, 3, 1, 2)
    assert_close(got, expected.transpose(axes))


@pytest.mark.parametrize(("hidden", "channels", "side"), [(32, 48, 9), (20, 33, 13), (128, 64, 6)])
@pytest.mark.parametrize("residual", [False, True])
def test_pairs_are_updated_by_their_sums(
    hidden: int, channels: int, side: int, residual: bool
) -> None:
    sums, pairs = draw(1, 2, hidden, side, side, scale=5), draw(2, 2, side, side, channels)
    gates, weights = draw(3, hidden, channels, scale=0.3), draw(4, channels, hidden)
    sum_norm, pair_norm = norm(5, hidden), norm(7, channels)
    got = ops.triangle_update(
        array(sums),
        array(pairs),
        sum_norm=pair(sum_norm),
        pair_norm=pair(pair_norm),
        gates=array(gates),
        weights=array(weights),
        residual=residual,
        epsilon=EPSILON,
    )
    gate = sigmoid(layer_norm(pairs, pair_norm) @ gates.T.astype(np.float64))
    gated = layer_norm(sums.transpose(0, 2, 3, 1), sum_norm) * gate
    assert_close(got, gated @ weights.T.astype(np.float64) + residual * pairs)


@pytest.mark.parametrize(("rows", "width", "hidden"), [(5, 16, 32), (150, 40, 70), (33, 128, 256)])
def test_a_transition_adds_two_layers(rows: int, width: int, hidden: int) -> None:
    x, first, second = draw(1, rows, width), draw(2, hidden, width), draw(3, width, hidden)
    normed = norm(4, width)
    got = ops.transition(array(x), pair(normed), array(first), array(second), epsilon=EPSILON)
    wide = np.maximum(layer_norm(x, normed) @ first.T.astype(np.float64), 0.0)
    assert_close(got, x + wide @ second.T.astype(np.float64))


@pytest.mark.parametrize(
    ("rows", "columns", "heads", "size"), [(3, 17, 2, 16), (40, 5, 1, 24), (4, 160, 2, 8)]
)
@pytest.mark.parametrize("along_columns", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_is_gated_and_biased(
    rows: int, columns: int, heads: int, size: int, along_columns: bool, biased: bool
) -> None:
    projected = draw(1, rows, columns, 4 * heads * size)
    length = rows if along_columns else columns
    bias = draw(2, heads, length, length, scale=2)
    got = ops.gated_attention(
        array(projected), heads, bias=array(bias) if biased else None, along_columns=along_columns
    )
    parts = projected.astype(np.float64).reshape(rows, columns, 4, heads, size)
    if along_columns:
        parts = parts.swapaxes(0, 1)
    query, key, value, gate = (parts[:, :, part] for part in range(4))
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(size)
    scores = np.exp(scores + bias if biased else scores)
    shares = scores / scores.sum(axis=-1, keepdims=True)
    expected = np.einsum("bhqk,bkhd->bqhd", shares, value) * sigmoid(gate)
    if along_columns:
        expected = expected.swapaxes(0, 1)
    assert_close(got, expected.reshape(rows, columns, heads * size))


@pytest.mark.parametrize(
    ("sequences", "residues", "inner", "channels"), [(5, 35, 16, 40), (64, 9, 16, 32), (3, 6, 5, 7)]
)
def test_outer_products_are_averaged(
    sequences: int, residues: int, inner: int, channels: int
) -> None:
    left, right = (draw(seed, sequences, residues, inner) for seed in (1, 2))
    weights, pairs = draw(3, channels, inner * inner), draw(4, residues, residues, channels)
    got = ops.outer_product_mean(array(left), array(right), array(weights), array(pairs))
    products = np.einsum("sic,sjd->ijcd", left.astype(np.float64), right.astype(np.float64))
    means = products.reshape(residues, residues, -1) / sequences
    assert_close(got, pairs + means @ weights.T.astype(np.float64))


def test_what_is_not_finite_stays_in_its_row() -> None:
    """Tiles of split numbers cannot hold infinities: the whole operation is done otherwise."""
    x, weights = draw(1, 1, 4, 40, 32), draw(2, 64, 32)
    x[0, 1, 3, 5] = np.inf
    normed = norm(3, 32)
    got = ops.channel_projection(array(x), pair(normed), array(weights)).to_numpy()
    assert np.isnan(got[0, :, 1, 3]).all()
    got[0, :, 1, 3] = 0.0
    assert np.isfinite(got).all()
    rows = array(x.reshape(-1, 32))
    moved = ops.transition(rows, pair(normed), array(weights), array(weights.T.copy())).to_numpy()
    assert np.isnan(moved[43]).all()
    assert np.isfinite(np.delete(moved, 43, axis=0)).all()


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(128, 128, 128), (33, 40, 50), (20, 16, 17), (64, 100, 31), (300, 40, 50)]
)
def test_products_of_a_batch(transposed: tuple[bool, bool], m: int, k: int, n: int) -> None:
    """Small matrices of a batch are a thread each, larger ones several, whichever axis is contiguous."""
    a, b = draw(1, 3, m, k), draw(2, 3, k, n)

    def stored(matrix: Values, flipped: bool) -> Array:
        if flipped:
            return xp.matrix_transpose(array(np.ascontiguousarray(matrix.swapaxes(1, 2))))
        return array(matrix)

    got = ops.batched_matmul(stored(a, transposed[0]), stored(b, transposed[1]))
    assert_close(got, a.astype(np.float64) @ b.astype(np.float64))


def test_floats_and_bytes_are_counted() -> None:
    device = array(draw(1, 1)).device
    x, weights = array(draw(1, 1, 8, 8, 32)), array(draw(2, 16, 32))
    normed = pair(norm(3, 32))
    device.take_records()
    out = ops.channel_projection(x, normed, weights, weights)
    device.synchronize()
    (record,) = [each for each in device.take_records().records if each.kind == "launch"]
    assert record.flops == 2 * (2 * 64 * 16 * 32)
    assert record.bytes == x.nbytes + 2 * 4 * 32 + 2 * weights.nbytes + out.nbytes


def test_wrong_shapes_are_named() -> None:
    x, weights, normed = array(draw(1, 1, 2, 3, 8)), array(draw(2, 4, 8)), pair(norm(3, 8))
    with pytest.raises(ShapeError, match=r"gates of shape \(4, 8\), got \(5, 8\)"):
        ops.channel_projection(x, normed, weights, array(draw(4, 5, 8)))
    with pytest.raises(ShapeError, match=r"norm of shape \(8\), got \(7,\)"):
        ops.channel_projection(x, pair(norm(3, 7)), weights)
    with pytest.raises(InputError, match="epsilon of 0 or more, got -1"):
        ops.channel_projection(x, normed, weights, epsilon=-1.0)
    with pytest.raises(ShapeError, match="multiples of 4 x 3 heads, got 8"):
        ops.gated_attention(array(draw(1, 2, 3, 8)), 3)
    with pytest.raises(ShapeError, match=r"second of shape \(8, 4\)"):
        ops.transition(array(draw(1, 5, 8)), normed, weights, weights)
    with pytest.raises(AssayError, match="sums of shape"):
        ops.triangle_update(
            array(draw(1, 1, 4, 3, 2)),
            x,
            sum_norm=normed,
            pair_norm=normed,
            gates=weights,
            weights=weights,
        )
