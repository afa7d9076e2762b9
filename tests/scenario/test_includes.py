"""Scenarios with includes: precedence, replacement and notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import stack
from assay.catalog import accelerators, constants, entries
from assay.errors import InputError, UnknownNameError
from assay.scenario import Preset, built_in, include

HEAD = 'name = "trial"\n[[targets]]\nlabel = "peak"\nvariable = "gpu.peak_flops"\n'


def scenario(tmp_path: Path, text: str) -> Preset:
    path = tmp_path / "trial.toml"
    path.write_text(text)
    return Preset.from_file(path, stack.registry())


def test_an_included_accelerator_gives_its_values_and_its_fitted_constants(tmp_path: Path) -> None:
    preset = scenario(tmp_path, 'include = ["accelerators/H100"]\n' + HEAD)
    assert preset.resolve("gpu.peak_flops").value == pytest.approx(989.43e12, rel=1e-4)
    assert preset.assignments["kernels.gemm.read_share"].source == "fitted constants of h100_sxm"


def test_own_values_override_included_ones(tmp_path: Path) -> None:
    text = 'include = ["accelerators/h100_sxm"]\n' + HEAD
    text += '[values]\n"gpu.clock" = { value = "1 GHz", source = "x", kind = "assumed" }\n'
    preset = scenario(tmp_path, text)
    assert preset.resolve("gpu.peak_flops").value == pytest.approx(132 * 4096 * 1e9)
    assert preset.notes == ()
    assert preset.own == {"gpu.clock"}


def test_later_include_wins_and_a_note_names_both(tmp_path: Path) -> None:
    preset = scenario(tmp_path, 'include = ["grids/france", "grids/germany"]\n' + HEAD)
    assert preset.notes == (
        "carbon.grid.intensity: grids/france says 0.056 kg/kWh, "
        "grids/germany says 0.381 kg/kWh, which holds",
        "carbon.residual.intensity: grids/france says 0.0532 kg/kWh, "
        "grids/germany says 0.72869 kg/kWh, which holds",
        "carbon.grid.water: grids/france says 3.674 L/kWh, "
        "grids/germany says 1.947 L/kWh, which holds",
    )
    assert preset.resolve("carbon.grid.intensity").value == pytest.approx(0.381 / 3.6e6)


def test_included_value_may_be_dropped(tmp_path: Path) -> None:
    text = 'include = ["accelerators/h100_sxm"]\ndrop = ["gpu.clock"]\n' + HEAD
    preset = scenario(tmp_path, text)
    (gap,) = preset.resolve("gpu.peak_flops").missing
    assert gap.variable.name == "gpu.clock"
    with pytest.raises(InputError, match=r"drop names gpu\.voltage, which no include gives"):
        scenario(tmp_path, text.replace("gpu.clock", "gpu.voltage"))


def test_further_include_replaces_its_group(tmp_path: Path) -> None:
    preset = scenario(tmp_path, 'include = ["accelerators/h100_sxm"]\n' + HEAD)
    other = preset.with_includes([include("accelerators/l4", stack.registry())])
    # The L4 states its bandwidth as a whole: nothing of the H100's stacks may be left.
    assert "hbm.stacks" not in other.assignments
    assert other.resolve("gpu.memory.bandwidth").value == pytest.approx(300e9)
    assert other.resolve("gpu.memory.bandwidth").conflicts == []
    assert other.notes[0] == "no kernel measurements of l4: constants of a100_sxm"


def test_own_values_keep_their_order_with_further_includes() -> None:
    # The order of inputs is that of the samples of an interval, which must not differ between runs.
    preset = built_in.preset("llama3_8b_h200_serving")
    changed = preset.with_includes([include("accelerators/b200_sxm", stack.registry())])
    own = [name for name in changed.assignments if name in changed.own]
    assert len(own) > 10
    assert own == [name for name in preset.assignments if name in changed.own]


def test_entry_may_choose_a_variant(tmp_path: Path) -> None:
    preset = scenario(tmp_path, 'include = ["sites/aws_fleet"]\n' + HEAD)
    given = {**preset.given, "cluster.it_power": "1 MW"}
    found = stack.registry().resolve("thermal.dc.pue", given, preset.variants)
    assert found.value == pytest.approx(1.15)
    without = preset.with_includes([include("sites/nordic_dry", stack.registry())])
    assert without.variants == {}


def test_json_file_is_included_from_the_scenarios_folder(tmp_path: Path) -> None:
    entry = {"values": {"gpu.clock": {"value": "1.1 GHz", "source": "me", "kind": "measured"}}}
    (tmp_path / "mine.json").write_text(json.dumps(entry))
    preset = scenario(tmp_path, 'include = ["mine.json"]\n' + HEAD)
    assert preset.assignments["gpu.clock"].kind == "measured"


def test_accelerator_file_may_name_its_calibration(tmp_path: Path) -> None:
    clock = {"value": "1.1 GHz", "source": "me", "kind": "measured"}
    entry = {"group": "accelerators", "calibration": "h100_sxm", "values": {"gpu.clock": clock}}
    (tmp_path / "mine.json").write_text(json.dumps(entry))
    mine = include("mine.json", stack.registry(), tmp_path)
    assert mine.values["kernels.gemm.read_share"].source == "fitted constants of h100_sxm"
    preset = scenario(tmp_path, 'include = ["accelerators/l4"]\n' + HEAD).with_includes([mine])
    assert "gpu.multiprocessors" not in preset.assignments


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("h100_sxm", InputError, "malformed include"),
        ("gpus/h100_sxm", UnknownNameError, 'unknown catalog group "gpus"'),
        ("accelerators/h1000", UnknownNameError, 'unknown accelerator "h1000"'),
        ("tariffs/atlantis", UnknownNameError, 'unknown entry of tariffs "atlantis"'),
        ("nothing.json", InputError, "cannot be read"),
    ],
)
def test_unknown_includes_are_named(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        include(name, stack.registry())


def test_include_must_be_a_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a list of texts as include"):
        scenario(tmp_path, 'include = "accelerators/h100_sxm"\n' + HEAD)


def test_report_gives_the_share_of_variance_of_assumed_values(tmp_path: Path) -> None:
    text = (
        '[[targets]]\nlabel = "power"\nvariable = "thermal.dc.overhead_power"\n[values]\n'
        '"thermal.cooling.power" = { value = "600 W", source = "x", kind = "assumed", uncertainty = 0.2 }\n'
        '"thermal.dc.ups_loss" = { value = "600 W", source = "x", kind = "measured", uncertainty = 0.1 }\n'
        '"thermal.dc.transformer_loss" = { value = "600 W", source = "x", kind = "spec" }\n'
    )
    (report,) = scenario(tmp_path, text).evaluate_targets().targets
    # Nearly normal: variances go with the squares of the half-widths.
    assert report.assumed_share == pytest.approx(4 / 5, abs=0.02)
    assert report.variance_by_kind["measured"] == pytest.approx(1 / 5, abs=0.02)
    assert report.to_data()["assumed_share"] == report.assumed_share


CORRELATED = HEAD + (
    '[values]\n"gpu.clock" = { value = "uniform(1, 2) GHz", source = "x", kind = "assumed" }\n'
    '"gpu.multiprocessors" = { value = "100 1/GPU", source = "x", kind = "assumed" }\n'
    '"gpu.flops_per_cycle" = { value = "uniform(4000, 8000) FLOP", source = "x", kind = "assumed" }\n'
)


def test_scenario_states_correlations(tmp_path: Path) -> None:
    independent = scenario(tmp_path, CORRELATED).resolve("gpu.peak_flops")
    stated = CORRELATED + '[correlations]\n"gpu.clock, gpu.flops_per_cycle" = -0.95\n'
    preset = scenario(tmp_path, stated)
    assert preset.correlations == {("gpu.clock", "gpu.flops_per_cycle"): -0.95}
    together = preset.resolve("gpu.peak_flops")
    assert together.value == independent.value
    assert together.upper - together.lower < 0.8 * (independent.upper - independent.lower)


def test_correlation_of_a_certain_value_is_refused(tmp_path: Path) -> None:
    stated = CORRELATED + '[correlations]\n"gpu.clock,gpu.multiprocessors" = 0.5\n'
    with pytest.raises(InputError, match=r"multiprocessors is not given as a distribution"):
        scenario(tmp_path, stated)


def test_malformed_correlation_names_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"malformed scenario trial: correlation"):
        scenario(tmp_path, CORRELATED + '[correlations]\n"gpu.clock" = 0.5\n')


def test_a_later_include_drops_correlations_of_what_it_replaces(tmp_path: Path) -> None:
    stated = CORRELATED + '[correlations]\n"gpu.clock, gpu.flops_per_cycle" = -0.95\n'
    preset = scenario(tmp_path, stated)
    other = preset.with_includes([include("accelerators/h100_sxm", preset.registry)])
    assert ("gpu.clock", "gpu.flops_per_cycle") not in other.correlations


@pytest.mark.parametrize("name", accelerators.names())
def test_borrowed_constants_are_named(name: str) -> None:
    entry = entries.read("accelerators", name)
    if "calibration" not in entry.facts:
        return
    part = include(f"accelerators/{name}", stack.registry())
    lenders = {
        value.source.removeprefix("fitted constants of ")
        for value in part.values.values()
        if value.source.startswith("fitted constants of ")
    }
    if name in constants.calibrated():
        assert lenders == {name}
    else:
        (lender,) = lenders
        assert part.notes[0] == f"no kernel measurements of {name}: constants of {lender}"
