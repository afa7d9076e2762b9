"""Sobol points: SciPy's, the same from the cache, and the same interval however many targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import qmc

from assay.model.resolving.resolve import find_intervals, make_resolver
from assay.model.uncertainty.sobol import sobol_points
from assay.scenario import built_in


@pytest.mark.parametrize("dimensions", [1, 3, 40, 163])
def test_points_are_scrambled_sobol_points(
    dimensions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    fresh = sobol_points(dimensions, 256, seed=0)
    np.testing.assert_array_equal(sobol_points(dimensions, 256, seed=0), fresh)
    assert fresh.shape == (dimensions, 256)
    assert fresh.min() > 0.0
    assert fresh.max() < 1.0
    # A net: every interval of width 1/256 holds one point, in each dimension.
    cells = np.sort(np.floor(fresh * 256), axis=1)
    np.testing.assert_array_equal(cells, np.tile(np.arange(256.0), (dimensions, 1)))
    discrepancy = qmc.discrepancy(fresh[:3].T)
    assert discrepancy < qmc.discrepancy(np.random.default_rng(0).random((256, len(fresh[:3]))))


def test_few_dimensions_are_exactly_scipys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    expected = qmc.Sobol(3, seed=np.random.default_rng([7, 2])).random_base2(6).T + 2.0**-31
    np.testing.assert_array_equal(sobol_points(3, 64, seed=7, replicate=2), expected)


def test_a_target_has_the_same_interval_alone_and_among_others() -> None:
    preset = built_in.preset("llama3_8b_8_h100_training")
    targets = [target for _, target in preset.targets]
    together = find_intervals(
        make_resolver(preset.registry, preset.inputs, preset.variants), targets
    )
    for target in targets[:3]:
        alone = find_intervals(
            make_resolver(preset.registry, preset.inputs, preset.variants), [target]
        )
        np.testing.assert_allclose(together[target][:2], alone[target][:2], rtol=1e-12)
        assert together[target][2] == alone[target][2]
