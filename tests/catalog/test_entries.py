"""Every value of the catalog: readable, sourced, dated, and as published."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay import stack
from assay.catalog import accelerators, entries
from assay.catalog.entries import CatalogEntry
from assay.catalog.sourced_value import KINDS, SourcedValue, read_value
from assay.errors import InputError, UnitError, UnknownNameError
from assay.model.inputs import read_inputs
from assay.model.language.distributions import Distribution

CASES = [
    case
    for path in sorted((Path(entries.__file__).parent / "cases").glob("published*.json"))
    for case in json.loads(path.read_text())
]
GROUPS = [group for group in entries.groups() if group != "models"]
ALL = [entry for group in GROUPS for entry in entries.entries(group)]
DATA_SHEETS = [
    case for case in CASES if case["id"].startswith("datasheet-") and "vm" not in case["inputs"]
]
DATA_SHEETS = [case for case in DATA_SHEETS if "dense_tflops" in case["observed"]]


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.path)
def test_values_fit_their_variables_and_state_source_and_date(entry: CatalogEntry) -> None:
    variables = stack.registry().variables
    given = {name: value.read(variables[name]) for name, value in entry.values.items()}
    read_inputs(stack.registry(), given)
    for value in entry.values.values():
        assert value.kind in KINDS
        assert value.source
        assert value.date


def test_every_group_has_enough_entries() -> None:
    counts = {group: len(entries.names(group)) for group in GROUPS}
    assert counts["accelerators"] >= 16
    for group in ("tariffs", "grids", "sites", "prices", "rents", "nodes"):
        assert counts[group] >= 3


@pytest.mark.parametrize("case", DATA_SHEETS, ids=lambda case: case["id"])
def test_accelerators_match_their_data_sheets(case: dict[str, dict[str, object]]) -> None:
    stated = case["observed"]
    given = accelerators.find(str(case["inputs"]["gpu"])).given
    registry = stack.registry()

    def found(name: str) -> float:
        return registry.resolve(name, given).require_value()

    rates = stated["dense_tflops"]
    assert isinstance(rates, dict)
    peak = float(rates.get("bf16", rates.get("fp16", 0)))
    assert found("gpu.peak_flops") / 1e12 == pytest.approx(peak, rel=0.003)
    if "fp8" in rates:
        assert found("gpu.rate_fp8") == pytest.approx(rates["fp8"] / peak, rel=0.02)
    if "fp4" in rates:
        assert found("gpu.rate_fp4") == pytest.approx(rates["fp4"] / peak, rel=0.01)
    assert found("gpu.memory.bandwidth") / 1e9 == pytest.approx(stated["hbm_GBps"], rel=0.001)
    assert found("gpu.power.limit") == stated["tdp_W"]
    both_ways = float(str(stated["nvlink_GBps_total_bidirectional"]))
    if both_ways:
        assert found("gpu.link.bandwidth") / 1e9 == pytest.approx(both_ways / 2)


# TFLOP/s in 16, 8 (FP8, else INT8) and 4 (FP4) bits, TB/s, GB and W as the vendors state them.
STATED = {
    "mi355x": (2516.6, 5033, 10066, 8.0, 288, 1400),
    "rtx_5090": (209.5, 419, 1676, 1.792, 34.36, 575),
    "h100_nvl": (835.5, 1671, None, 3.9, 94, 400),
    "tpu_v6e": (918, 1836, None, 1.638, 32, None),
    "tpu_v7x": (2307, 4614, None, 7.38, 206.2, None),
    "trainium1": (190, 190, None, 0.82, 34.36, None),
    "trainium2": (667, 1299, None, 2.9, 103.1, None),
    "gaudi3": (1835, 1835, None, 3.7, 128, 900),
    "gb200": (2500, 5000, 10000, 8.0, None, 1200),
    "gb300": (2500, 5000, 15000, 8.0, None, 1400),
    "tpu_v5p": (459, 918, None, 2.765, 102.0, None),
    "tpu_v5e": (197, 394, None, 0.819, 17.18, None),
    "a100_sxm": (312, 624, None, 2.039, 85.9, 400),
    "t4": (65, 130, None, 0.32, None, 70),
    "l4": (121, 242, None, 0.3, None, 72),
}


@pytest.mark.parametrize("name", sorted(STATED))
def test_accelerators_match_what_their_vendors_state(name: str) -> None:
    sixteen, eight, four, bandwidth, capacity, power = STATED[name]
    entry = accelerators.find(name)

    def found(variable: str) -> float:
        return stack.registry().resolve(variable, entry.given).require_value()

    peak = found("gpu.peak_flops") / 1e12
    assert peak == pytest.approx(sixteen, rel=0.005)
    rate = entry.given["gpu.rate_fp8"] or entry.given["gpu.rate_int8"]
    assert peak * rate == pytest.approx(eight, rel=0.005)
    assert peak * entry.given["gpu.rate_fp4"] == pytest.approx(four or 0, rel=0.005)
    assert found("gpu.memory.bandwidth") / 1e12 == pytest.approx(bandwidth, rel=0.005)
    if capacity:
        assert found("gpu.memory.capacity") / 1e9 == pytest.approx(capacity, rel=0.002)
    if power:
        assert found("gpu.power.limit") == power


def test_same_die_has_the_same_power_limited_rate() -> None:
    """The H800 is an H100 with fewer links; it was 5 % faster."""
    given = {"gpu.activity": 1.0, "gpu.memory.duty": 0.3, "gpu.coolant_temperature": 300.0}
    h100, h800 = (
        stack.registry().resolve("gpu.throttle", {**accelerators.find(name).given, **given}).value
        for name in ("h100_sxm", "h800_sxm")
    )
    assert h800 == pytest.approx(h100)


def test_tariffs_of_states_are_those_of_both_kinds_of_customers() -> None:
    cases = {case["id"]: case["observed"] for case in CASES if "electricity-2023" in case["id"]}
    assert len(cases) == 8
    for name, stated in cases.items():
        state = name.removeprefix("electricity-2023-").lower()
        for path, kind in ((f"us_{state}", "industrial"), (f"us_{state}_commercial", "commercial")):
            price = entries.read("tariffs", path).given["econ.electricity.energy_price"]
            assert price * 3.6e8 == pytest.approx(stated[f"{kind}_cents_per_kWh"])


def test_accelerators_of_published_cases_are_known() -> None:
    named = {
        case["inputs"][field]
        for case in CASES
        for field in ("gpu", "system", "accelerator", "device")
        if field in case["inputs"]
    }
    assert {name: accelerators.find(name).name for name in named}
    with pytest.raises(UnknownNameError, match="unknown accelerator"):
        accelerators.find("H1000")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100-SXM-80GB", "h100_sxm"),
        ("V100-SXM3-32GB (DGX-2)", "v100_sxm3"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm"),
        ("8x H100 SXM5", "h100_sxm"),
        ("A100 40GB", "a100_sxm_40gb"),
        ("A100-PCIE-40GB", "a100_pcie_40gb"),
        ("NVIDIA A100 80GB PCIe", "a100_pcie"),
        ("GB200 NVL72", "gb200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("RTX 4090 24GB", "rtx_4090"),
        ("Cloud TPU v5p", "tpu_v5p"),
    ],
)
def test_spellings_of_accelerators(name: str, found: str) -> None:
    assert accelerators.find(name).name == found


def test_uncertain_value_is_a_lognormal_whose_90_percent_interval_is_its_uncertainty() -> None:
    variable = stack.registry().variables["gpu.power.limit"]
    value = SourcedValue("700 W/GPU", "x", "assumed", "2024", 0.1)
    found = value.read(variable)
    assert isinstance(found, Distribution)
    assert found.kind == "lognormal"
    lower, median, upper = found.quantile(np.array([0.05, 0.5, 0.95]))
    assert (lower, median, upper) == pytest.approx((700 / 1.1, 700.0, 700 * 1.1))
    assert value.read(variable, exact=True) == 700.0
    assert SourcedValue("700 W/GPU", "x", "spec").read(variable) == 700.0


def test_uncertainty_is_relative_to_the_stated_number_and_not_to_the_base_unit() -> None:
    variable = stack.registry().variables["gpu.coolant_temperature"]
    found = SourcedValue("20 degC", "x", "assumed", "2024", 0.1).read(variable)
    assert isinstance(found, Distribution)
    lower, upper = found.quantile(np.array([0.05, 0.95]))
    assert (lower, upper) == pytest.approx((273.15 + 20 / 1.1, 273.15 + 22.0))


def test_value_of_another_dimension_is_refused() -> None:
    variable = stack.registry().variables["gpu.power.limit"]
    for uncertainty in (0.0, 0.1):
        with pytest.raises(UnitError, match=r"gpu\.power\.limit"):
            SourcedValue("700 W", "x", "spec", "", uncertainty).read(variable)


def test_computed_value_passes_on_its_number_and_not_its_text() -> None:
    variable = stack.registry().variables["gpu.power.limit"]
    number = 700.0 / 3.0
    found = SourcedValue.from_number(variable, number, "fit", "measured")
    assert found.text == "233.333333333333 W/GPU"
    assert found.read(variable) == number


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"value": "1 W", "kind": "spec"}, "needs a value, a source and a kind"),
        ({"value": "1 W", "source": "x", "kind": "guess"}, "needs a value, a source and a kind"),
        ({"value": "1 W", "source": "x", "kind": "spec", "sure": 1}, 'unknown entry "sure"'),
        ({"value": "1 W", "source": "x", "kind": "spec", "uncertainty": -1}, "0 or more"),
        (
            {"value": "1 W", "source": "x", "kind": "spec", "uncertainty": "low"},
            "expected a number",
        ),
        ({"value": "1..2 W", "source": "x", "kind": "spec", "uncertainty": 0.1}, "positive number"),
    ],
)
def test_incomplete_or_unknown_facts_are_refused(item: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_value("here", item, {})


def test_grids_of_us_states_surround_the_mean_of_the_country() -> None:
    """Hydropower in Oregon is below it, coal in Utah above."""
    intensity = {
        entry.name: entry.given["carbon.grid.intensity"]
        for entry in entries.entries("grids")
        if entry.name.startswith("us_")
    }
    mean = intensity.pop("us_average")
    assert len(intensity) == 10
    assert intensity["us_oregon"] < 0.5 * mean < mean < intensity["us_utah"]
