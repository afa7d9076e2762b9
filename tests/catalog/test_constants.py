"""Fitted constants: keyed by variables and by engine, with fallbacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import assay.catalog
from assay.catalog import constants
from assay.errors import UnknownNameError
from assay.model.language.quantity import check_dimension
from assay.model.language.units import parse_unit
from assay.stack import registry

CALIBRATION = Path(assay.catalog.__file__).parent / "calibration"


def test_every_constant_is_a_variable_in_its_unit() -> None:
    variables = registry().variables
    checked = 0
    for path in CALIBRATION.glob("*.json"):
        data = json.loads(path.read_text())
        if "system" not in data:
            continue
        sets = [data["constants"], *data.get("engines", {}).values()]
        for name, entry in (item for one in sets for item in one.items()):
            assert name in variables, f"{path.name}: {name}"
            check_dimension(name, parse_unit(entry["unit"]), variables[name].unit)
            checked += 1
    assert checked > 300


def test_every_constant_of_kernels_has_a_value() -> None:
    needed = {
        name
        for name, variable in registry().variables.items()
        if name.startswith("kernels.") and variable.is_root and variable.boundary == "needs-source"
    }
    for system in ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"):
        for engine in constants.engines(system):
            assert needed <= set(constants.given(system, engine)), (system, engine)


def test_gemm_model_has_at_most_fifteen_16_bit_constants() -> None:
    fitted = json.loads((CALIBRATION / "h100_sxm.json").read_text())["constants"]
    own = {
        name.rpartition(".")[2]
        for name in fitted
        if name.startswith("kernels.gemm.") and not name.endswith("spread")
    }
    assert (
        len(own - {"eight_bit_share", "eight_bit_step", "cast_time", "cast_share", "cast_row_time"})
        <= 15
    )


def test_engines_differ_and_the_first_is_the_default() -> None:
    assert constants.engines("h100_sxm")[0] == "vllm"
    default, named = constants.given("h100_sxm"), constants.given("h100_sxm", "vllm")
    kernels = [name for name in default if name.startswith("kernels.")]
    assert kernels
    assert all(default[name] == named[name] for name in kernels)
    other = constants.given("h100_sxm", "trtllm")
    assert other["kernels.decode.most_group"] != default["kernels.decode.most_group"]
    assert other["kernels.gemm.read_share"] == default["kernels.gemm.read_share"]


def test_unknown_engines_are_named() -> None:
    with pytest.raises(UnknownNameError, match="vlm"):
        constants.find("h100_sxm", "vlm")


def test_fallback_constants_are_noted() -> None:
    assert constants.find("h100_sxm").notes == ()
    borrowed = constants.find("h800_sxm")
    assert borrowed.source_system == "h100_sxm"
    assert borrowed.values == constants.given("h100_sxm")
    assert "h100_sxm" in borrowed.notes[0]


def test_own_constants_override_the_fallback() -> None:
    found, relative = constants.find("l40s"), constants.given("a100_sxm")
    assert found.source_system == "l40s"
    read = "kernels.gemm.read_share"
    assert found.values[read] != relative[read]
    assert set(found.values) == set(relative)
    assert "collectives: constants of a100_sxm" in found.notes
