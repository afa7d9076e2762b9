"""Triangle multiplication by fused kernels against NumPy in double precision, in bfloat16."""

import numpy as np
import pytest

from assay import xp
from assay.runtime import Device, cuda
from assay.workloads.protein import reference
from assay.workloads.protein.layers import Place
from assay.workloads.protein.triangle import FusedTriangleMultiplication
from assay.workloads.protein.weights import triangle_weights

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

TOLERANCE = 3e-2
"""Of the largest value: norms, factors, sums, gated sums and updates are each rounded to bf16. Sides of 136 have
tiles enough for persistent kernels, and a last one that is not full."""


@pytest.mark.parametrize("incoming", [False, True])
@pytest.mark.parametrize(("side", "channels"), [(136, 128), (64, 128), (36, 384), (20, 768)])
def test_triangles_are_multiplied(incoming: bool, side: int, channels: int) -> None:
    place = Place(Device("cuda:0", pool_bytes=2 << 30))
    random = np.random.default_rng(side)
    pairs = place.array(random.standard_normal((2, side, side, channels)).astype(np.float32))
    mask = (random.random((2, side, side)) < 0.7).astype(np.float32)
    weights = triangle_weights(channels, 128)
    update = FusedTriangleMultiplication(weights, place, incoming=incoming)
    got = xp.astype(update(pairs, place.array(mask), residual=True), xp.float32).to_numpy()
    rounded = xp.astype(pairs, xp.float32).to_numpy().astype(np.float64)
    for sample in range(2):
        expected = rounded[sample] + reference.triangle(
            rounded[sample], weights, incoming=incoming, mask=mask[sample].astype(np.float64)
        )
        error = np.abs(got[sample] - expected).max() / np.abs(expected).max()
        assert error < TOLERANCE, (sample, error)
