"""Bundled scenarios against figures from other sources."""

from __future__ import annotations

import pytest

from assay import stack
from assay.scenario import built_in


def test_energy_floor_of_pythia_70m() -> None:
    preset = built_in.preset("pythia_70m_energy_floor")
    report = preset.evaluate_targets()
    assert report.ok == len(report.targets)
    found = {target.label: target.resolution for target in report.targets}
    values = {label: r.value for label, r in found.items() if r is not None}
    # 6 FLOPs for each of 70,397,952 weights and token on eight GPUs at 989.4 TFLOP/s.
    throughput = 8 * 989.4e12 / (6 * 70_397_952)
    kilowatt_hours = 10.2 * 299_892_736_000 / throughput / 3600
    assert values["throughput"] == pytest.approx(throughput)
    assert values["power cost"] == pytest.approx(0.0806 * kilowatt_hours)
    assert values["cost per token"] == pytest.approx(0.0806 * kilowatt_hours / 299_892_736_000)


def test_energy_floor_is_below_the_full_cost() -> None:
    """The floor was at the FP32 rate, with more energy than the full run in BF16."""
    for size in ("70m", "160m"):
        floor = built_in.preset(f"pythia_{size}_energy_floor")
        full = built_in.preset(f"pythia_{size}_full_cost")
        for target in ("econ.run.power_cost", "econ.cost.per_token", "training.time_to_train"):
            assert floor.resolve(target).require_value() < full.resolve(target).require_value()


@pytest.mark.parametrize(
    "name", [name for name in built_in.presets() if name != "dense_training_cost_fixture"]
)
def test_every_preset_resolves_all_its_targets(name: str) -> None:
    preset = built_in.preset(name)
    for _, target in preset.targets:
        found = stack.registry().resolve(
            target, {n: a.text for n, a in preset.assignments.items()}, preset.variants
        )
        assert [gap.variable.name for gap in found.missing] == []
        assert [verdict.name for verdict in found.violated] == []
        assert found.conflicts == []
