"""`assay scenario-report` and `assay scenario-audit`."""

from pathlib import Path
from typing import Any

import pytest

from assay.scenario import built_in

NAME = "dense_training_cost_fixture"
SCENARIO = """
name = "partial"
description = "a part of a GPU"
[[targets]]
label = "rate"
variable = "gpu.peak_flops"
[[targets]]
label = "units"
variable = "gpu.multiprocessors"
[values]
"gpu.multiprocessors" = { value = "132 1/GPU", source = "sheet", kind = "measured" }
"gpu.flops_per_cycle" = { value = "4096 FLOP", source = "guess", kind = "assumed" }
"econ.electricity.energy_price" = { value = "0.1 USD/kWh", source = "bill", kind = "published" }
"""


def test_report_of_the_worked_example(cli: Any) -> None:
    outcome = cli("scenario-report", NAME)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "dense_training_cost_fixture: 4 of 4 targets ok\n"
        "\n"
        "target          variable                    status  value\n"
        "throughput      training.tokens_per_second  ok      6667000 token/s\n"
        "job power       econ.job.dc_power           ok      5200 W\n"
        "power cost      econ.run.power_cost         ok      $0.00078\n"
        "cost per token  econ.cost.per_token         ok      $3.00 per million tokens\n"
    )


def test_preset_is_accepted_as_argument_or_option(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of them take many seconds: two stand for them.
    two = {name: built_in.presets()[name] for name in (NAME, "pythia_70m_energy_floor")}
    monkeypatch.setattr(built_in, "presets", lambda: two)
    by_argument, by_option, all_of_them = (
        cli("scenario-report", *words, "--json").data for words in ((NAME,), ("--preset", NAME), ())
    )
    assert by_argument == by_option
    assert by_argument["reports"][0] in all_of_them["reports"]
    assert [report["preset"] for report in all_of_them["reports"]] == list(two)


@pytest.mark.slow
def test_every_preset_has_a_report(cli: Any) -> None:
    reports = cli("scenario-report", "--json").data["reports"]
    assert [report["preset"] for report in reports] == list(built_in.presets())


def test_incomplete_scenario(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "partial.toml"
    path.write_text(SCENARIO)
    outcome = cli("scenario-report", str(path))
    assert outcome.code == 3
    assert outcome.out.startswith("partial: 1 of 2 targets ok\n")
    assert "note: rate: missing input gpu.clock\n" in outcome.out
    assert outcome.out.endswith("missing families: gpu (1)\n")
    assert outcome.err.startswith("error: 1 target without a value: 1 input missing\n")
    data = cli("scenario-report", str(path), "--json").data
    assert (data["ok"], data["of"]) == (1, 2)
    assert data["reports"][0]["missing_families"] == {"gpu": ["gpu.clock"]}


def test_failing_target_exits_with_2(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "zero.toml"
    path.write_text(
        '[[targets]]\nlabel = "PUE"\nvariable = "thermal.dc.pue"\n'
        '[defaults]\nsource = "x"\nkind = "assumed"\n[values]\n'
        '"cluster.it_power" = "0 W"\n"thermal.dc.power" = "1 W"\n'
    )
    outcome = cli("scenario-report", str(path))
    assert outcome.code == 2
    assert outcome.err.startswith("error: thermal.dc.pue: thermal.dc.pue has no finite value")


def test_violations_and_conflicts_in_a_scenario(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    values = (
        '[[targets]]\nlabel = "share"\nvariable = "econ.job.share"\n'
        '[defaults]\nsource = "x"\nkind = "assumed"\n[values]\n'
        '"training.gpus" = "16 GPU"\n"cluster.nodes" = "1 node"\n"cluster.node.gpus" = "8 GPU/node"\n'
    )
    path.write_text(values)
    assert cli("scenario-report", str(path)).code == 0
    strict = cli("scenario-report", str(path), "--fail-on-violated-constraints")
    assert strict.code == 1
    assert "econ.job.fits_site" in strict.err
    path.write_text(values + '"cluster.gpus" = "9 GPU"\n')
    assert cli("scenario-report", str(path)).code == 2
    assert cli("scenario-report", str(path), "--allow-conflicts").code == 0


def test_audit_of_the_worked_example(cli: Any) -> None:
    outcome = cli("scenario-audit", NAME, "--missing-families")
    assert outcome.code == 0
    assert outcome.out.startswith(
        "dense_training_cost_fixture\n"
        "\n"
        "about             A worked example in round numbers: eight GPUs train for ten\n"
        "                  steps, priced to the token.\n"
        "own targets       4 of 4 ok\n"
        "declared targets  "
    )
    assert "values            19: 19 assumed\n" in outcome.out
    assert "unused            none\n" in outcome.out
    assert "gpu.power_limited_peak_flops" in outcome.out.split("pinned")[1].split("unused")[0]
    assert "\nmissing family " in outcome.out


def test_audit_finds_unused_values_and_counts_kinds(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "partial.toml"
    path.write_text(SCENARIO)
    outcome = cli("scenario-audit", str(path), "--json")
    assert outcome.code == 1
    (audit,) = outcome.data["audits"]
    assert audit["unused"] == ["econ.electricity.energy_price"]
    assert audit["pinned"] == []
    assert audit["kinds"] == {"spec": 0, "measured": 1, "published": 1, "assumed": 1}
    assert (audit["ok"], audit["of"]) == (1, 2)
    assert "gpu.clock" in [gap["name"] for gap in audit["missing_families"]["gpu"]]
    assert outcome.err.startswith("error: targets with issues in partial\nhint: ")
