"""`assay resolve`: values, missing inputs, constraints, switches and conflicts."""

from typing import Any

import pytest

FIXTURE = ("econ.cost.per_token", "--preset", "dense_training_cost_fixture")
SMALL = ("--set", "toy.load=5 W", "--set", "toy.limit=10 W")
VIOLATED = (
    "violated: toy.load.fits: toy.load <= toy.limit, but toy.load is {} W,\n    toy.limit is 10 W\n"
)


def test_value_alone(cli: Any) -> None:
    outcome = cli("resolve", *FIXTURE)
    assert (outcome.code, outcome.out, outcome.err) == (
        0,
        "econ.cost.per_token = $3.00 per million tokens\n",
        "",
    )


def test_json_is_exact_and_complete(cli: Any) -> None:
    outcome = cli("resolve", *FIXTURE, "--json")
    data = outcome.data
    assert outcome.code == 0
    assert list(data) == [
        "target", "value", "unit", "lo", "hi", "missing", "constraints", "undetermined", "validity",
        "conflicts", "switches", "degradations", "trace",
    ]  # fmt: skip
    assert data["target"] == "econ.cost.per_token"
    assert data["value"] == pytest.approx(3.000078e-6, rel=1e-12)
    assert data["unit"] == "USD/token"
    assert data["lo"] == data["hi"] == data["value"]
    assert data["missing"] == data["conflicts"] == data["switches"] == []
    assert {verdict["status"] for verdict in data["validity"]} == {"true"}
    assert {verdict["status"] for verdict in data["constraints"]} == {"true"}
    # The scenario has no values for racks, feeds or serving, so their constraints are unknown.
    left = data["undetermined"]
    assert "thermal.dc.within_feed" in left["by_layer"]["thermal"]
    assert left["count"] == sum(len(names) for names in left["by_layer"].values())
    figures = {step["name"]: (step["value"], step["unit"]) for step in data["trace"]}
    assert figures["training.step_time"] == (pytest.approx(0.15), "s")
    assert figures["cluster.it_power"] == (4400, "W")
    assert figures["thermal.dc.power"] == (5200, "W")
    assert figures["econ.run.power_cost"] == (pytest.approx(0.00078), "USD")
    assert figures["econ.run.total_cost"] == (pytest.approx(30.00078), "USD")


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("training.tokens_per_second", "6667000 token/s"),
        ("thermal.dc.pue", "1.182"),
        ("training.model_flops_utilisation", "83.33 %"),
    ],
)
def test_other_targets_of_the_fixture(cli: Any, target: str, value: str) -> None:
    outcome = cli("resolve", target, "--preset", "dense_training_cost_fixture")
    assert outcome.out == f"{target} = {value}\n"


def test_assign_overrides_the_preset_in_any_compatible_unit(cli: Any) -> None:
    changed = cli("resolve", *FIXTURE, "--assign", "econ.capex.rate=0.04 MUSD/h")
    same = cli("resolve", *FIXTURE, "--set", "econ.capex.rate = 40000 USD / h ")
    assert changed.out == same.out != cli("resolve", *FIXTURE).out


def test_same_value_given_twice_is_accepted(cli: Any) -> None:
    outcome = cli("resolve", *FIXTURE, *2 * ("--set", "gpu.power=400 W/GPU"))
    assert outcome.code == 0


def test_missing_inputs_are_listed_and_exit_with_3(cli: Any) -> None:
    outcome = cli("resolve", "gpu.peak_flops", "--set", "gpu.clock=1 GHz")
    assert outcome.code == 3
    assert outcome.out == (
        "gpu.peak_flops = unknown\n"
        "\n"
        "missing input        unit   meaning\n"
        "gpu.multiprocessors  1/GPU  streaming multiprocessors\n"
        "gpu.flops_per_cycle  FLOP   dense 16-bit tensor-core FLOPs per SM and cycle\n"
    )
    assert outcome.err == (
        "error: gpu.peak_flops needs 2 more inputs\n"
        'hint: give each a value with --assign name="value unit", or use --preset\n'
    )


def test_many_missing_inputs_begin_with_what_to_do_and_the_nearest(cli: Any) -> None:
    outcome = cli("resolve", "econ.cost.per_token")
    lines = outcome.out.splitlines()
    count = len(cli("resolve", "econ.cost.per_token", "--json").data["missing"])
    assert lines[2].startswith("a scenario gives most of them: --preset NAME")
    assert lines[6].startswith("training.total_tokens ")
    assert lines[-1] == f"20 of {count} missing inputs; --verbose lists all"
    assert len(lines) < 80
    whole = cli("resolve", "econ.cost.per_token", "--verbose").out
    assert "--verbose" not in whole
    assert len(whole.splitlines()) > count > 200


def test_missing_option_adds_dependent_variables(cli: Any) -> None:
    listed = cli("resolve", "gpu.peak_flops", "--missing").out
    assert "boundary" in listed
    assert "for gpu.peak_flops" in " ".join(listed.split())
    assert cli("resolve", *FIXTURE, "--missing").out.endswith("\nmissing inputs: none\n")


def test_missing_inputs_as_json(cli: Any) -> None:
    outcome = cli("resolve", "gpu.peak_flops", "--json")
    assert outcome.code == 3
    assert outcome.data["value"] is outcome.data["lo"] is outcome.data["hi"] is None
    assert outcome.data["missing"][0] == {
        "name": "gpu.multiprocessors",
        "unit": "1/GPU",
        "family": "gpu",
        "meaning": "streaming multiprocessors",
        "boundary": "primitive",
        "needed_by": ["gpu.peak_flops"],
    }


def test_violated_constraint_fails_only_with_option(cli: Any, toy: Any) -> None:
    over = ("toy.share", "--set", "toy.load=15 W", "--set", "toy.limit=10 W")
    lenient = cli("resolve", *over)
    assert (lenient.code, lenient.out) == (0, f"{VIOLATED.format(15)}toy.share = 1.5\n")
    assert lenient.err == ""
    strict = cli("resolve", *over, "--fail-on-violated-constraints")
    assert (strict.code, strict.out) == (1, lenient.out)
    assert "error: violated: toy.load.fits\n" in strict.err
    assert cli("resolve", "toy.share", *SMALL, "--fail-on-violated-constraints").code == 0


def test_constraints_option_lists_all_verdicts(cli: Any, toy: Any) -> None:
    outcome = cli("resolve", "toy.share", *SMALL, "--constraints")
    assert outcome.out == (
        "toy.share = 0.5\n"
        "\n"
        "1 constraint: 1 fulfilled\n"
        "status  constraint     condition\n"
        "holds   toy.load.fits  toy.load <= toy.limit\n"
    )


def test_trace_option_lists_values_in_order(cli: Any, toy: Any) -> None:
    outcome = cli("resolve", "toy.share", *SMALL, "--trace")
    assert outcome.out == (
        "toy.share = 0.5\n"
        "\n"
        "value  variable   how\n"
        "  5 W  toy.load   given\n"
        " 10 W  toy.limit  given\n"
        "  0.5  toy.share  = toy.load / toy.limit\n"
    )


def test_switch_of_an_approximation_is_noted(cli: Any, toy: Any) -> None:
    hot = ("toy.heat", "--set", "toy.load=30 W", "--set", "toy.limit=10 W")
    chosen = ("--variant", "toy.heat=heat.linear")
    switched = cli("resolve", *hot, *chosen)
    assert switched.out == f"{VIOLATED.format(30)}toy.heat = 45 K\n"
    assert (
        "note: toy.heat uses toy.heat.square: toy.heat.linear needs toy.share < 2" in switched.err
    )
    without_switch = cli("resolve", *hot, *chosen, "--no-switch")
    assert without_switch.out == f"{VIOLATED.format(30)}toy.heat = 30 K\n"
    assert "note: toy.heat.linear is used where it is not valid" in without_switch.err
    assert cli("resolve", *hot, *chosen, "--json").data["switches"] == [
        {
            "variable": "toy.heat",
            "left": "toy.heat.linear",
            "used": "toy.heat.square",
            "condition": "toy.share < 2",
        }
    ]


def test_conflicts_are_shown_and_refused_unless_allowed(cli: Any, toy: Any) -> None:
    pinned = ("toy.share", *SMALL, "--set", "toy.share=0.7")
    refused = cli("resolve", *pinned)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "note: toy.share is given as 0.7, but toy.load / toy.limit gives 0.5\n"
        "error: contradictory input: toy.share is given as 0.7, but toy.load / toy.limit gives 0.5\n"
        "hint: drop the value of toy.share or one of its inputs, or pass "
        "--allow-conflicts\n"
    )
    allowed = cli("resolve", *pinned, "--allow-conflicts")
    assert (allowed.code, allowed.out) == (0, "toy.share = 0.7\n")
    assert "error" not in allowed.err
    data = cli("resolve", *pinned, "--json").data
    assert data["conflicts"] == [
        {"name": "toy.share", "given": 0.7, "computed": 0.5, "unit": "1", "relation": "toy.share"}
    ]


def test_uncertain_inputs_give_an_interval(cli: Any, toy: Any) -> None:
    uncertain = ("--set", "toy.load=4..6 W", "--set", "toy.limit=10 W")
    data = cli("resolve", "toy.share", *uncertain, "--json").data
    assert data["lo"] == pytest.approx(0.4, rel=5e-3)
    assert data["hi"] == pytest.approx(0.6, rel=5e-3)
    assert data["lo"] < data["value"] < data["hi"]
    assert "(90 %: 0." in cli("resolve", "toy.share", *uncertain).out


@pytest.mark.parametrize("command", ["resolve", "explain"])
def test_no_interval_leaves_the_value_as_it_is(cli: Any, command: str) -> None:
    words = (command, "training.step_time", "--preset", "llama3_8b_8_h100_training", "--json")
    full, alone = cli(*words).data, cli(*words, "--no-interval").data
    assert full["lo"] < full["value"] < full["hi"]
    assert alone["value"] == full["value"]
    assert alone["lo"] is None
    assert alone["hi"] is None


def test_preset_may_be_a_file(cli: Any, tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[values]\n"thermal.dc.ups_loss" = '
        '{ value = "3 W", source = "meter", kind = "measured" }\n'
    )
    outcome = cli("resolve", "thermal.dc.ups_loss", "--preset", str(path))
    assert (outcome.code, outcome.out) == (0, "thermal.dc.ups_loss = 3 W\n")


def test_correlated_inputs_change_the_interval_and_not_the_value(cli: Any) -> None:
    given = ("--set", "econ.capex.rate=15..25 USD/s", "--set", "training.step_time=0.1..0.2 s")
    apart = cli("resolve", *FIXTURE, *given, "--json").data
    pair = ("--correlate", "training.step_time,econ.capex.rate=-0.9")
    together = cli("resolve", *FIXTURE, *given, *pair, "--json").data
    assert together["value"] == apart["value"]
    assert together["hi"] - together["lo"] < 0.7 * (apart["hi"] - apart["lo"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("econ.capex.rate=0.5", 'malformed --correlate "econ.capex.rate=0.5"'),
        ("econ.capex.rate,econ.capex.rat=0.5", "econ.capex.rat"),
        ("econ.capex.rate,training.step_time=0.5", "is not given as a distribution"),
        ("econ.capex.rate,training.step_time=2", "expected a number between -1 and 1, got 2"),
    ],
)
def test_correlations_that_cannot_hold(cli: Any, text: str, message: str) -> None:
    outcome = cli("resolve", *FIXTURE, "--correlate", text)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""
