"""Bundled scenarios against figures from other sources."""

from __future__ import annotations

import pytest

from assay import stack


def test_energy_floor_of_pythia_70m() -> None:
    preset = stack.preset("pythia_70m_energy_floor")
    report = preset.evaluate_targets()
    assert report.ok == len(report.targets)
    found = {target.label: target.resolution for target in report.targets}
    values = {label: r.value for label, r in found.items() if r is not None}
    assert round(values["throughput"] or 0) == 1_268_976
    assert values["power cost"] == pytest.approx(54.4378, abs=5e-5)
    assert values["cost per token"] == pytest.approx(1.815243e-10, abs=5e-17)


def test_energy_floor_is_below_the_full_cost() -> None:
    for size in ("70m", "160m"):
        floor = stack.preset(f"pythia_{size}_energy_floor").resolve("econ.run.power_cost")
        full = stack.preset(f"pythia_{size}_full_cost").resolve("econ.run.total_cost")
        assert floor.require_value() < full.require_value()


@pytest.mark.parametrize(
    "name", [name for name in stack.presets() if name != "dense_training_cost_fixture"]
)
def test_every_preset_resolves_all_its_targets(name: str) -> None:
    preset = stack.preset(name)
    for _, target in preset.targets:
        found = stack.registry().resolve(
            target, {n: a.text for n, a in preset.assignments.items()}, preset.variants
        )
        assert [gap.variable.name for gap in found.missing] == []
        assert [verdict.name for verdict in found.violated] == []
        assert found.conflicts == []
