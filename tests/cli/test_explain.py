"""`assay explain`: the provenance tree of the training-cost fixture matches a stored file."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

FIXTURE = ("econ.cost.per_token", "--preset", "dense_training_cost_fixture")
PROVENANCE = Path(__file__).parent / "provenance.txt"


def test_provenance_of_the_worked_example(cli: Any) -> None:
    outcome = cli("explain", *FIXTURE)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == PROVENANCE.read_text()


def test_provenance_shows_every_figure_of_the_worked_example() -> None:
    text = PROVENANCE.read_text()
    for name, figure in (
        ("training.compute_time", "0.125 s"),
        ("training.step_time", "0.15 s"),
        ("training.tokens_per_second", "6667000 token/s"),
        ("cluster.it_power", "4400 W"),
        ("thermal.dc.power", "5200 W"),
        ("thermal.dc.pue", "1.182"),
        ("econ.run.power_cost", "$0.00078"),
        ("econ.run.total_cost", "$30.00"),
        ("econ.cost.per_token", "$3.00 per million tokens"),
    ):
        assert any(name in line and figure in line for line in text.splitlines()), name


def test_provenance_fits_eighty_columns_of_ascii() -> None:
    text = PROVENANCE.read_text()
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


def test_depth_truncates_the_tree_with_a_hint(cli: Any) -> None:
    outcome = cli("explain", *FIXTURE, "--depth", "1")
    tree = outcome.out.split("\n\n")[1]
    assert tree == (
        "econ.cost.per_token ............................ $3.00 per million tokens  [1]\n"
        "|  = econ.run.total_cost / training.total_tokens\n"
        "|- econ.run.total_cost ........................................... $30.00  [2]\n"
        "|     = econ.run.hardware_cost + econ.run.power_cost\n"
        "|     ...\n"
        "`- training.total_tokens ................................. 10000000 token  [3]\n"
        "... cut at depth 1; --depth 2 shows more"
    )


def test_missing_inputs_are_in_the_tree_and_listed(cli: Any) -> None:
    given = ("--set", "econ.electricity.energy_price=0.1 USD/kWh")
    outcome = cli("explain", "econ.electricity.price", *given)
    assert outcome.code == 3
    assert outcome.err.startswith("error: econ.electricity.price needs 3 more inputs\n")
    assert re.search(
        r"- econ\.electricity\.demand_price \.+ missing, in USD/\(kW\*month\)\n", outcome.out
    )
    assert re.search(r"missing input +unit +meaning", outcome.out)


def test_conflicts_and_violations_stand_beside_the_tree(cli: Any, toy: Any) -> None:
    given = ("--set", "toy.load=30 W", "--set", "toy.limit=10 W")
    outcome = cli("explain", "toy.heat", *given, "--variant", "toy.heat=heat.linear")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[1].startswith("violated: toy.load.fits: toy.load <= toy.limit, but toy.load is 30")
    assert lines[-2:] == [
        "1 constraint: 1 violated",
        "note: toy.heat uses toy.heat.square: toy.heat.linear needs toy.share < 2",
    ]
    pinned = cli("explain", "toy.share", *given, "--set", "toy.share=3.5")
    assert pinned.code == 2
    assert pinned.out == ""
    assert pinned.err.startswith("error: contradictory input: toy.share is given as 3.5")


def test_uncertain_entries_show_their_interval(cli: Any, toy: Any) -> None:
    outcome = cli("explain", "toy.risk", "--set", "toy.load=100 W")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].startswith("load and noise: 200.0 W (90 %: 198.")
    assert "~ normal(toy.load, 1 W)" in outcome.out


@pytest.mark.parametrize("depth", ["0", "3", "1000000000"])
def test_json_tree_agrees_with_its_depth(cli: Any, depth: str) -> None:
    data = cli("explain", *FIXTURE, "--depth", depth, "--json").data
    depths = [row["depth"] for row in data["provenance"]]
    assert max(depths) == min(int(depth), 9)
    assert data["cut"] is (int(depth) < 9)
    # In order, no entry is more than one level deeper than the one before it.
    assert all(after <= before + 1 for before, after in pairwise(depths))
