"""Emissions and water against published figures."""

from __future__ import annotations

import pytest

from assay import stack
from assay.catalog import entries

from .sites import COST_INPUTS, JOB, SITE

HOUR, YEAR = 3600.0, 31557600.0
KWH, TONNE, LITER = 3.6e6, 1e3, 1e-3

Given = dict[str, float | str]


def value(target: str, given: Given, variants: dict[str, str] | None = None) -> float:
    return stack.registry().resolve(target, given, variants=variants or {}).require_value()


def a100_run(gpu_hours: float) -> Given:
    """GPUs of 400 W, all other machines left out, as LLaMA's and BLOOM's authors reckon."""
    return {
        "training.gpus": "2048 GPU",
        "cluster.nodes": "256 node",
        "cluster.node.gpus": "8 GPU/node",
        "training.time_to_train": gpu_hours / 2048 * HOUR,
        "training.run_yield": 1,
        "gpu.power": "400 W/GPU",
        "cluster.node.cpu_power": 0,
        "cluster.node.memory_power": 0,
        "cluster.node.nic_power": 0,
        "cluster.node.storage_power": 0,
        "cluster.node.other_power": 0,
        "thermal.dc.stated_pue": 1.1,
        "carbon.intensity": "0.385 kg/kWh",
    }


STATED = {"thermal.dc.overhead_power": "dc.overhead_stated"}


@pytest.mark.parametrize(
    ("gpu_hours", "megawatt_hours", "tonnes"),
    [(82_432, 36, 14), (135_168, 59, 23), (530_432, 233, 90), (1_022_362, 449, 173)],
    ids=["7B", "13B", "33B", "65B"],
)
def test_energy_and_carbon_of_llama(gpu_hours: float, megawatt_hours: float, tonnes: float) -> None:
    """Touvron et al. 2023, Table 15, to the printed digit; 65B is printed as cut off, not rounded."""
    given = a100_run(gpu_hours)
    energy = value("econ.run.energy", given, STATED)
    assert energy == pytest.approx(gpu_hours * 400 * 1.1 * HOUR, rel=1e-12)
    assert energy / KWH / 1000 == pytest.approx(megawatt_hours, abs=0.9)
    carbon = value("carbon.run.operational", given, STATED)
    assert carbon == pytest.approx(energy / KWH * 0.385, rel=1e-12)
    assert carbon / TONNE == pytest.approx(tonnes, abs=0.5)


def test_carbon_of_bloom() -> None:
    """Luccioni et al. 2023: 24.7 t of use at 57 g/kWh, 11.2 t of making.

    Nodes of 2500 kg, GPUs of 150 kg, six years, 85 % used.
    """
    given: Given = {
        **a100_run(1_082_990),
        "thermal.dc.stated_pue": 1,
        "carbon.intensity": "57 g/kWh",
        "carbon.gpu.embodied": "150 kg/GPU",
        "carbon.node.embodied": "2500 kg/node",
        "carbon.site.embodied": 0,
        "cluster.design_power": "1 MW",
        "econ.machines.lifetime": "6 year",
        "econ.site.lifetime": "15 year",
        "econ.utilisation": 0.85,
    }
    assert value("carbon.run.operational", given, STATED) == pytest.approx(24.7e3, rel=2e-3)
    assert value("carbon.run.embodied", given, STATED) == pytest.approx(11.2e3, rel=3e-3)
    assert value("carbon.run.total", given, STATED) == pytest.approx(35.9e3, rel=3e-3)


def test_water_of_gpt_3() -> None:
    """Li et al. 2023: 1287 MWh at 0.55 L/kWh take 700,000 L on site; 5.4 million in all."""
    given: Given = {
        "econ.run.energy": 1287 * 1.17 * 1000 * KWH,
        "thermal.dc.pue": 1.17,
        "thermal.dc.wue": "0.55 L/kWh",
        "carbon.grid.water": "3.142 L/kWh",
    }
    assert value("carbon.run.water", given) / LITER == pytest.approx(5.439e6, rel=1e-3)
    on_site = value("carbon.run.water", {**given, "carbon.grid.water": 0})
    assert on_site / LITER == pytest.approx(700e3, rel=0.02)


GRID: Given = {
    "carbon.grid.intensity": "0.4 kg/kWh",
    "carbon.contracted.share": 0.75,
    "carbon.contracted.intensity": "0.02 kg/kWh",
}


def test_location_and_market_based_emissions() -> None:
    """Contracts first, then the residual mix; the grid's average only where that is chosen."""
    market = {"carbon.intensity": "market_based"}
    given: Given = {**GRID, "carbon.residual.intensity": "0.7 kg/kWh"}
    assert value("carbon.intensity", GRID) * KWH == pytest.approx(0.4)
    assert value("carbon.intensity", given, market) * KWH == pytest.approx(0.25 * 0.7 + 0.75 * 0.02)
    missing = stack.registry().resolve("carbon.intensity", GRID, variants=market).missing
    assert [gap.variable.name for gap in missing] == ["carbon.residual.intensity"]
    without = {"carbon.intensity": "market_based_without_residual_mix"}
    assert value("carbon.intensity", GRID, without) * KWH == pytest.approx(0.25 * 0.4 + 0.75 * 0.02)


def test_residual_mix_of_germany_is_dirtier_than_its_grid() -> None:
    """Guarantees of origin take wind and water out: 0.729 against 0.381 kg/kWh."""
    germany = entries.find("grids", "germany", "grid").values
    values: Given = {name: germany[name].text for name in germany}
    found = value("carbon.intensity", values, {"carbon.intensity": "market_based"}) * KWH
    assert found == pytest.approx(0.72869)
    assert value("carbon.intensity", values) * KWH == pytest.approx(0.381)


def test_carbon_usage_effectiveness_is_grid_intensity_times_pue() -> None:
    given: Given = {"carbon.intensity": "0.4 kg/kWh", "thermal.dc.pue": 1.5}
    assert value("carbon.cue", given) * KWH == pytest.approx(0.6)


def test_carbon_and_water_per_token_of_run_and_deployment() -> None:
    given: Given = {
        **SITE,
        **COST_INPUTS,
        **JOB,
        **GRID,
        "carbon.gpu.embodied": "150 kg/GPU",
        "carbon.node.embodied": "2500 kg/node",
        "carbon.site.embodied": "0.5 kg/W",
        "carbon.grid.water": "2 L/kWh",
        "serving.gpus": "512 GPU",
        "serving.throughput": "1e6 token/s",
        "econ.serving.load": 1,
    }
    seconds = 20 * 86400 / 0.9
    made = (
        (150 + 2500 / 8) / (5 * YEAR)
        + 0.5 * value("cluster.design_power", given) / 1024 / (15 * YEAR)
    ) / 0.85
    used = value("thermal.dc.power", given) / 1024 * 0.4 / KWH
    run = 512 * seconds * (made + used)
    assert value("carbon.per_token", given) == pytest.approx(run / 1e12, rel=1e-12)
    # The same GPUs, allocated for the same time, have the same embodied emissions.
    assert value("carbon.per_output_token", given) == pytest.approx(run / seconds / 1e6, rel=1e-12)
    energy = value("econ.energy.per_output_token", given) / value("thermal.dc.pue", given)
    water = energy * (value("thermal.dc.wue", given) + value("thermal.dc.pue", given) * 2e-3 / KWH)
    assert value("carbon.water.per_output_token", given) == pytest.approx(water, rel=1e-12)
