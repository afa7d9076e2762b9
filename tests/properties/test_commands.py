"""The command line of a draw, pasted, gives the number that was checked."""

from __future__ import annotations

import json
import shlex
from typing import Any

import draws
import pytest
from invariants import ALL
from property_harness import Answers, Draw, RefusedError

from assay.cli.app import run
from assay.stack import registry

FIGURES = {
    "serving": "serving.end_to_end_time",
    "training": "training.step_time",
    "priced serving": "econ.cost.per_output_token",
}


def answered(kind: str, name: str, answers: Answers) -> tuple[Draw, float]:
    """The first draw of a kind that has an answer."""
    for turn in range(20):
        draw = draws.of_kind(kind, "pasted", turn)
        try:
            return draw, answers.value(draw, name)
        except RefusedError:
            continue
    raise AssertionError(f"no draw of {kind} in twenty has an answer")


def pasted(command: str, capsys: pytest.CaptureFixture[str]) -> Any:
    program, *words = shlex.split(command)
    assert program == "assay"
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("kind", "name"), FIGURES.items())
def test_a_command_gives_the_value_of_its_draw(
    kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, value = answered(kind, name, Answers(ALL))
    said = pasted(draw.command(name), capsys)
    shown = registry().variables[name].shown(value)
    assert said["value"] == pytest.approx(shown, rel=1e-6), draw.command(name)


def test_a_changed_value_is_written_in_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    # The rate of a pin is shown in bits, and counted in bytes.
    draw = Draw(draws.SERVING, {"models": "qwen3-8b"}, {"hbm.pin_rate": 6e8})
    value = Answers(ALL).value(draw, "serving.decode.time")
    said = pasted(draw.command("serving.decode.time"), capsys)
    assert said["value"] == pytest.approx(1e3 * value, rel=1e-6)


def test_a_command_of_a_load_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    draw = draws.of_kind("load", "pasted", 1)
    small = Draw(draw.kind, draws.LOAD.simplest, {**draw.values, "rates": 0.5})
    said = pasted(small.command(""), capsys)
    assert [row["rate"] for row in said["rates"]] == [0.5]
