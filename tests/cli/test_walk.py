"""`assay walk`: a chain of relations whose product is what the value does when its first variable is moved."""

from __future__ import annotations

import shlex

import pytest

from assay.errors import InputError, MissingInputsError, UnknownNameError
from assay.scenario.questions.walking import walk

from .conftest import Cli


def test_a_walk_from_quarks_to_the_cost_of_a_token() -> None:
    answer = walk("quark", "econ.cost.per_token")
    names = [step.variable.name for step in answer.steps]
    assert names[0] == "nuclear.quarks.down"
    assert names[-1] == "econ.cost.per_token"
    assert answer.layers == ["nuclear", "lithography", "fab", "manufacturing", "econ"]
    for before, step in zip(answer.steps, answer.steps[1:], strict=False):
        assert step.relation is not None
        assert before.variable.name in step.relation.inputs
        assert step.elasticity


def test_the_product_of_steps_is_what_moving_the_first_one_does() -> None:
    """One way only leads from the pulse of a laser to the power of its light: nudged by a thousandth."""
    powers = []
    for energy in ("0.54 J", "0.54054 J"):
        answer = walk(
            "lithography.laser.pulse_energy",
            "lithography.wafer.time",
            assign=[f"lithography.laser.pulse_energy={energy}"],
        )
        powers.append(answer.steps[-1].value)
    assert powers[0] is not None
    assert powers[1] is not None
    carried = answer.steps[-1].carried
    assert carried == pytest.approx((powers[1] / powers[0] - 1) / 1e-3, rel=5e-3)


def test_json_has_every_step(cli: Cli) -> None:
    data = cli(
        "walk", "manufacturing.wafer.price", "econ.gpu.price", "--json",
        "--preset", "llama3_8b_8_h100_training",
    ).data  # fmt: skip
    assert data["variants"]["econ.gpu.price"].startswith("econ.gpu.price_by_m")
    assert [step["variable"] for step in data["steps"]][:2] == [
        "manufacturing.wafer.price",
        "manufacturing.die.cost",
    ]
    product = 1.0
    for step in data["steps"][1:]:
        product *= step["elasticity"]
    assert data["elasticity"] == pytest.approx(product)


def test_the_printed_command_gives_the_same_number(cli: Cli) -> None:
    answer = walk("quark", "econ.cost.per_token")
    last = answer.steps[-1]
    assert last.value is not None
    outcome = cli(*shlex.split(answer.command)[1:], "--no-interval", "--json")
    assert outcome.data["value"] == pytest.approx(last.variable.shown(last.value), rel=1e-9)


def test_text_lists_steps_and_command(cli: Cli) -> None:
    outcome = cli("walk", "quark", "lithography.power")
    assert outcome.code == 0
    assert "nuclear.quarks.down to lithography.power" in outcome.out
    assert "assay resolve lithography.power" in outcome.out
    assert "no --preset given" in outcome.err


@pytest.mark.parametrize(
    ("start", "target", "error"),
    [
        ("nosuchword", "econ.cost.per_token", UnknownNameError),
        ("quark", "nosuch.target", UnknownNameError),
        ("econ.cost.per_token", "nuclear.protons", InputError),
        ("lithography.resist.contacts", "econ.cost.per_token", MissingInputsError),
    ],
)
def test_walks_that_lead_nowhere(start: str, target: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        walk(start, target)


def test_the_printed_command_gives_the_last_value(cli: Cli) -> None:
    """With a scenario and a value of one's own, whose texts it has too."""
    data = cli(
        "walk", "gpu.clock", "training.step_time", "--json",
        "--preset", "llama3_8b_8_h100_training", "--set", "gpu.clock=1.5 GHz",
    ).data  # fmt: skip
    command, *words = shlex.split(data["command"])
    assert command == "assay"
    assert cli(*words, "--json").data["value"] == pytest.approx(data["steps"][-1]["value"])
