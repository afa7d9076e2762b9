"""Every command that answers judges every constraint that the scenario determines.

The memory of a training job is no part of the cost of a token, and yet a model that does not fit
has no cost.
"""

from __future__ import annotations

from typing import Any

import pytest

from assay import stack
from assay.scenario import built_in
from assay.scenario.includes import include

TRAINING = ("--preset", "llama3_8b_8_h100_training")
TOO_LARGE = (*TRAINING, "--with", "models/llama-3.1-70b")
COST = "econ.cost.per_token"
FAIL = "--fail-on-violated-constraints"
MEMORY = "parallelism.fits_memory"

COMMANDS = [
    ("resolve", COST, *TOO_LARGE),
    ("explain", COST, *TOO_LARGE),
    ("solve", "--unknown", "econ.electricity.energy_price", "--equal", f"{COST}=6e-7 USD/token",
     *TOO_LARGE),
    ("sweep", COST, "--over", "econ.electricity.energy_price=0.05,0.1 USD/kWh", *TOO_LARGE),
    ("minimize", COST, "--over", "econ.electricity.energy_price=0.05,0.1 USD/kWh",
     "--ignore-constraints", *TOO_LARGE),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_model_that_does_not_fit_is_named_and_fails(cli: Any, command: tuple[str, ...]) -> None:
    outcome = cli(*command)
    assert outcome.code == 0
    assert "violated" in outcome.out
    assert MEMORY in outcome.out
    strict = cli(*command, FAIL, "--quiet")
    assert strict.code == 1
    assert strict.out == outcome.out
    assert strict.err.startswith("error: violated")
    assert MEMORY in strict.err
    data = cli(*command, "--json").data
    assert MEMORY in str(data.get("violations") or data.get("violated") or data["constraints"])


def test_minimize_is_infeasible_where_no_choice_matters(cli: Any) -> None:
    outcome = cli("minimize", COST, *COMMANDS[4][2:4], *TOO_LARGE)
    assert outcome.code == 2
    assert f"{MEMORY} excludes 2" in outcome.err


def test_sweep_names_the_points_that_do_not_fit(cli: Any) -> None:
    over = ("--over", "gpu.memory.capacity=80,400 GiB/GPU")
    outcome = cli("sweep", COST, *over, *TOO_LARGE)
    assert f"violated at 1 of 2 points: {MEMORY}" in outcome.out
    data = cli("sweep", COST, *over, *TOO_LARGE, "--json").data
    assert data["violations"][MEMORY]["rows"] == [0]
    assert [row["constraints"] for row in data["rows"]] == ["false", "true"]


@pytest.mark.parametrize(
    ("path", "violated"),
    [
        ("models/llama-3.1-405b", {MEMORY}),
        ("models/deepseek-v3", {MEMORY}),
        ("models/mixtral-8x7b", {MEMORY}),
        ("accelerators/t4", {MEMORY}),
    ],
)
def test_scenarios_that_were_silent(path: str, violated: set[str]) -> None:
    registry = stack.registry()
    preset = built_in.preset("llama3_8b_8_h100_training").with_includes([include(path, registry)])
    resolution = registry.resolve(COST, preset.exact_inputs.values, preset.variants)
    assert violated <= {verdict.name for verdict in resolution.violated}


def test_scenario_report_names_a_violation_once(cli: Any, tmp_path: Any) -> None:
    path = tmp_path / "large.toml"
    path.write_text(
        'name = "large"\n'
        'include = ["accelerators/h100_sxm"]\n'
        '[defaults]\nsource = "a test"\nkind = "assumed"\n'
        '[values]\n"parallelism.memory.total" = "90 GiB/GPU"\n'
        '[[targets]]\nlabel = "peak"\nvariable = "gpu.peak_flops"\n'
        '[[targets]]\nlabel = "bandwidth"\nvariable = "gpu.memory.capacity"\n'
    )
    outcome = cli("scenario-report", str(path), "--allow-conflicts", FAIL)
    assert outcome.code == 1
    assert outcome.out.count(MEMORY) == 1
    assert outcome.err == f"error: violated: {MEMORY}\n"


@pytest.mark.parametrize("name", built_in.presets())
def test_built_in_presets_violate_nothing(name: str) -> None:
    report = built_in.preset(name).evaluate_targets(intervals=False)
    assert report.violated == []


def test_constraints_without_inputs_are_listed_with_verbose_only(cli: Any) -> None:
    command = ("resolve", COST, "--preset", "dense_training_cost_fixture")
    assert "not judged" not in cli(*command).err
    assert "serving.fits_memory is not judged: needs " in cli(*command, "--verbose").err
    unjudged = {
        v["name"]: v["missing"] for v in cli(*command, "--json", "--verbose").data["unjudged"]
    }
    assert "serving.memory_share" in unjudged["serving.fits_memory"]
    assert "unjudged" not in cli(*command, "--json").data


@pytest.mark.parametrize("command", COMMANDS[:4], ids=lambda command: command[0])
def test_json_counts_constraints_that_the_inputs_leave_open(
    cli: Any, command: tuple[str, ...]
) -> None:
    data = cli(*command, "--json").data
    assert data["undetermined"]["count"] > 20
    assert "serving.fits_memory" in data["undetermined"]["by_layer"]["serving"]
    assert not {"unknown", "unjudged"} & data.keys()
    assert all(each["status"] != "unknown" for each in data.get("constraints", ()))


def test_json_of_a_sweep_is_mostly_its_rows(cli: Any) -> None:
    over = ("--over", "gpu.power=400,500 W/GPU")
    assert (
        len(cli("sweep", COST, "--preset", "dense_training_cost_fixture", *over, "--json").out)
        < 4_000
    )
