"""The trunk and triangle multiplication against NumPy in double precision, and PyTorch where it is installed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from assay.errors import ShapeError
from assay.runtime.hardware import device
from assay.workloads.contract import DataSet, Missing, start_of
from assay.workloads.protein import reference
from assay.workloads.protein.configuration import SMALL_TRUNK
from assay.workloads.protein.layers import Place
from assay.workloads.protein.triangle import FusedTriangleMultiplication, TriangleMultiplication
from assay.workloads.protein.weights import triangle_weights
from assay.workloads.protein.workload import Protein

TINY = Protein(dataclasses.replace(SMALL_TRUNK, residues=24, sequences=10, pair_channels=32))


@pytest.fixture(scope="module")
def data() -> DataSet:
    return TINY.generate(seed=4, size=2)


@pytest.mark.parametrize("start", ["plain", "default"])
def test_logits_are_those_of_numpy(data: DataSet, start: str) -> None:
    cpu = device("cpu")
    program = TINY.prepare(
        data, cpu, start_of(TINY, cpu, "plain" if start == "plain" else "default")
    )
    program.run()
    outputs = program.outputs()
    verified = TINY.verify(outputs, data)
    assert verified.error <= verified.tolerance, verified
    assert verified.units == 2
    logits = outputs["logits"].copy()
    logits[1, 0, 0, 0] += 1.0
    assert TINY.verify({"logits": logits}, data).error > verified.tolerance
    program.poison()
    assert not TINY.verify(program.outputs(), data).error <= verified.tolerance


def test_pytorch_gives_the_same_logits(data: DataSet) -> None:
    pytest.importorskip("torch")
    program = TINY.rivals[0].prepare(data, device("cpu"))
    assert not isinstance(program, Missing)
    program.run()
    verified = TINY.verify(program.outputs(), data)
    assert verified.error <= verified.tolerance, verified


@pytest.mark.parametrize("incoming", [False, True])
@pytest.mark.parametrize("layout", ["rows", "channels", "fused"])
@pytest.mark.parametrize("cauchy", [False, True])
def test_triangles_are_multiplied(incoming: bool, layout: str, cauchy: bool) -> None:
    generator = np.random.default_rng(3)
    shape = (2, 12, 12, 48)
    draw = generator.standard_cauchy(shape) * 2 if cauchy else generator.standard_normal(shape)
    pairs = draw.astype(np.float32)
    mask = (generator.random((2, 12, 12)) < 0.7).astype(np.float32)
    weights, place = triangle_weights(48, 32, seed=5), Place(device("cpu"))
    update = (
        FusedTriangleMultiplication(weights, place, incoming=incoming)
        if layout == "fused"
        else TriangleMultiplication(weights, place, incoming=incoming, layout=layout)
    )
    got = update(place.array(pairs), place.array(mask)).to_numpy()
    for index in range(2):
        expected = reference.triangle(
            pairs[index].astype(np.float64), weights, incoming=incoming, mask=mask[index].astype(np.float64)
        )  # fmt: skip
        np.testing.assert_allclose(got[index], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", [FusedTriangleMultiplication, TriangleMultiplication])
def test_pairs_that_are_no_square_are_refused(kind: Any) -> None:
    place = Place(device("cpu"))
    update = kind(triangle_weights(8, 8), place, incoming=False)
    for shape in ((4, 4, 8), (1, 4, 5, 8)):
        with pytest.raises(
            ShapeError, match=r"pairs: expected shape \(batch, N, N, channels\), got"
        ):
            update(place.array(np.zeros(shape, np.float32)))


def test_a_triangle_by_hand() -> None:
    """Two residues, one hidden channel that all weights of 0 but the gates leave: norms of constants are their bias."""
    weights = triangle_weights(4, 1)
    zero = {
        name: np.zeros_like(getattr(weights, name))
        for name in ("left_gate", "right_gate", "out_gate")
    }
    weights = dataclasses.replace(weights, **zero)
    pairs = np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4) ** 2
    place = Place(device("cpu"))
    update = FusedTriangleMultiplication(weights, place, incoming=False)
    got = update(place.array(pairs)).to_numpy()
    # A norm of one channel is its bias; gates of 0 are one half.
    expected = weights.out_norm.bias[0] * 0.5 * weights.out[:, 0]
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-5)


def test_work_counts_the_products_of_triangles() -> None:
    """By hand: six projections of N x N x channels x hidden, and N^3 hidden, for both triangles of a block."""
    data = DataSet({}, 1)
    wide = dataclasses.replace(SMALL_TRUNK, triangle_channels=2 * SMALL_TRUNK.triangle_channels)
    more = Protein(wide).work(data).flops - Protein(SMALL_TRUNK).work(data).flops
    n, hidden = 128, 128
    assert more == 2 * SMALL_TRUNK.blocks * (12 * n * n * 128 * hidden + 2 * n**3 * hidden)


def test_other_inputs_do_not_change_outputs_that_were_computed(data: DataSet) -> None:
    cpu = device("cpu")
    program = TINY.prepare(data, cpu, start_of(TINY, cpu, "default"))
    program.run()
    program.load(TINY.generate(seed=5, size=2))
    assert TINY.verify(program.outputs(), data).error <= 1e-4
