"""Worked examples whose figures were computed by hand, outside this code."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import stack
from assay.scenario import built_in

FIXTURE = "dense_training_cost_fixture"

# flops/step 1e15 over 8 x 1e15 FLOP/s, and so on down to the token, in base units.
FIGURES = {
    "training.compute_time": 0.125,
    "training.step_time": 0.15,
    "training.tokens_per_second": 6_666_666.666666667,
    "training.time_to_train": 1.5,
    "training.model_flops_utilisation": 0.8333333333333334,
    "cluster.it_power": 4400.0,
    "thermal.dc.power": 5200.0,
    "thermal.dc.pue": 1.1818181818181819,
    "econ.job.dc_power": 5200.0,
    "econ.run.energy": 7800.0,
    "econ.run.power_cost": 0.00078,
    "econ.run.hardware_cost": 30.0,
    "econ.run.total_cost": 30.00078,
    "econ.cost.per_token": 3.000078e-6,
    "econ.cost.per_step": 3.000078,
    "econ.energy.per_token": 7.8e-4,
}


@pytest.mark.parametrize(("target", "value"), FIGURES.items())
def test_training_cost(target: str, value: float) -> None:
    resolution = built_in.preset(FIXTURE).resolve(target)
    assert resolution.value == pytest.approx(value, rel=1e-12)
    assert not resolution.missing
    assert not resolution.conflicts
    assert not resolution.violated


def test_scenario_report_is_all_ok() -> None:
    report = built_in.preset(FIXTURE).evaluate_targets()
    assert [target.status for target in report.targets] == ["ok"] * 4
    assert report.ok == 4


GATE = {
    "logic.gate.on_resistance": 1.0,
    "logic.gate.fan_out": 1.0,
    "logic.gate.input_capacitance": 1.0,
    "logic.wire.capacitance": 1.0,
    "logic.wire.capacitance_per_length": 1.0,
    "logic.wire.length": 1.0,
    "logic.wire.resistance_per_length": 0.0,
}


@pytest.mark.parametrize(("clock", "status"), [(0.1, "true"), (1.0, "false")])
def test_elmore_delay_and_timing(clock: float, status: str) -> None:
    resolution = stack.registry().resolve(
        "logic.gate.delay", {**GATE, "logic.clock.frequency": clock}
    )
    assert resolution.value == 2.0
    assert {verdict.name: verdict.status for verdict in resolution.constraints} == {
        "logic.clock.timing": status
    }
    assert not resolution.conflicts


def test_elmore_delay_of_a_resistive_wire() -> None:
    """Closed form of a driver, a distributed line and a load: R(Cw+CL) + Rw(Cw/2+CL)."""
    given = {**GATE, "logic.wire.resistance_per_length": 3.0}
    assert stack.registry().resolve("logic.gate.delay", given).value == 1 * (1 + 1) + 3 * (0.5 + 1)


def test_timing_is_unknown_without_a_clock() -> None:
    (verdict,) = stack.registry().resolve("logic.gate.delay", GATE).constraints
    assert verdict.status == "unknown"
    assert verdict.missing == ("logic.clock.frequency",)


def test_rack_peak() -> None:
    given = {
        "cluster.rack.nodes": "9 node",
        "cluster.node.gpus": "8 GPU/node",
        "gpu.peak_flops": "15 PFLOP/(s*GPU)",
    }
    resolution = stack.registry().resolve("cluster.rack.peak_flops", given)
    assert resolution.value == pytest.approx(1.08e18, rel=1e-15)


def test_h100_peak_matches_its_datasheet() -> None:
    """132 SMs, 4096 dense bf16 FLOPs per cycle, 1.83 GHz: the data sheet states 989 TFLOP/s."""
    given = {
        "gpu.multiprocessors": "132 1/GPU",
        "gpu.flops_per_cycle": "4096 FLOP",
        "gpu.clock": "1.83 GHz",
    }
    resolution = stack.registry().resolve("gpu.peak_flops", given)
    assert resolution.value == pytest.approx(989e12, rel=1e-3)


def test_cached_and_fresh_registries_are_equal() -> None:
    assert stack.registry().to_data() == stack.load_registry().to_data()


@pytest.mark.parametrize(
    "damage",
    [
        "",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("{}", "[1]", "null")),
        '{"key": "", "registry": {"scopes": [{}]}}',
    ],
)
def test_damaged_cache_is_rebuilt(
    damage: str, tmp_path: Path, registry_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    (intact_path,) = registry_cache.iterdir()
    intact = intact_path.read_bytes()
    path = tmp_path / "cache" / "registry" / intact_path.name
    path.parent.mkdir(parents=True)
    path.write_text(damage, encoding="utf-8")
    assert stack.registry.__wrapped__().to_data() == stack.registry().to_data()
    assert path.read_bytes() == intact
