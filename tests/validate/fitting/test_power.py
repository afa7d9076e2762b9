"""The fit of board power runs on today's graph and gives the constants of the catalog."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.catalog import accelerators
from assay.stack import registry
from assay.validate.fitting import power

MEASURED = Path(__file__).parents[2] / "data" / "h200_power.json"


def stated(name: str) -> float:
    """A value of the H200 in the catalog, in base units."""
    return accelerators.find("h200_sxm").given[name]


def test_the_fit_gives_the_constants_of_the_catalog() -> None:
    data: dict[str, Any] = json.loads(MEASURED.read_text())
    constants, activities, errors = power.fit(data)
    assert max(map(abs, errors[: len(data["locked"])])) < 0.012
    assert max(map(abs, errors)) < 0.041
    assert activities == pytest.approx({"zeros": 0.39, "copies": 0.09}, abs=0.005)
    resistance, coolant = power.cooling(data)
    fitted, by_load = power.fit_activities(data, constants)
    rows = power.conversion_rows(data, {**constants, **fitted}, by_load["reads"])
    assert rows == pytest.approx(registry().value("kernels.experts.conversion_rows"), abs=0.5)
    for name, value in {
        "gpu.reference.cycle_energy": constants["gpu.cycle_energy"],
        "gpu.reference.voltage_slope": constants["gpu.voltage_slope"],
        "gpu.reference.voltage_floor": constants["gpu.voltage_floor"],
        "gpu.reference.leakage_reference": constants["gpu.power.leakage_reference"],
        "hbm.access_energy": constants["hbm.access_energy"],
        "gpu.reference.thermal_resistance": resistance,
        **fitted,
    }.items():
        # As many digits as the catalog states.
        assert value == pytest.approx(stated(name), rel=0.005), name
    assert coolant == pytest.approx(312, abs=0.5)


def test_the_command_prints_constants_and_what_is_held_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["power", str(MEASURED)])
    power.main()
    printed = capsys.readouterr().out
    for line in (
        "gpu.cycle_energy ",
        "gpu.issue_activity ",
        "square (held out) ",
        "kernels.experts.conversion_rows ",
        "limit 300 W: ",
    ):
        assert f"\n{line}" in f"\n{printed}"
