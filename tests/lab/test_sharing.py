"""A scenario of the lab as command, file and link gives the number that the page shows."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from assay import stack
from assay.cli.app import run
from assay.scenario import built_in
from assay.scenario.named_scenario import Preset
from lab_questions import TOLERANCE, ask

SERVING, TRAINING = "llama3_8b_h200_serving", "llama3_8b_8_h100_training"
COST = "econ.cost.per_output_token"


def shared(preset: str, target: str, **options: Any) -> dict[str, Any]:
    """A question whose command, file and interval are wanted."""
    return {**ask(preset, targets=(target,), **options), "share": target}


QUESTIONS = (
    shared(SERVING, COST),
    shared(
        SERVING,
        COST,
        includes=("accelerators/a100_sxm", "tariffs/ireland"),
        assign={"econ.serving.load": 0.3, "serving.concurrency": 48.0, "gpu.coolant_temperature": 305.5},
    ),
    shared(
        TRAINING,
        "econ.cost.per_token",
        assign={"training.gpus": 64.0},
        variants={"training.compute_time": "training.at_peak"},
    ),
)  # fmt: skip


def resolved(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the command prints with --json."""
    assert run([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_command_file_and_link(
    page: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for question, found in zip(QUESTIONS, page(list(QUESTIONS)), strict=True):
        value = found["targets"][0]["value"]
        words = shlex.split(found["command"])
        assert words[:2] == ["assay", "resolve"]
        by_command = resolved(words[1:], capsys)
        variable = stack.registry().variables[question["share"]]
        assert math.isclose(by_command["value"], variable.shown(value), rel_tol=TOLERANCE)
        # The page draws 512 points, the command 4,096: ends agree to a share of the width.
        width = by_command["hi"] - by_command["lo"]
        for end, key in (("lower", "lo"), ("upper", "hi")):
            assert abs(variable.shown(found["interval"][end]) - by_command[key]) < 0.12 * width
        path = tmp_path / "lab_scenario.toml"
        path.write_text(found["file"])
        by_file = Preset.from_file(path, stack.registry()).resolve(question["share"])
        assert by_file.value is not None
        assert math.isclose(by_file.value, value, rel_tol=TOLERANCE)
        link = found["link"]
        assert link["with"] == question["selection"]["with"]
        for name, assignment in question["selection"]["assign"].items():
            assert math.isclose(link["assign"][name]["value"], assignment["value"], rel_tol=1e-14)


def test_uncertain_assignment_is_the_interval_of_the_command(
    page: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    question = shared(SERVING, COST, assign={"econ.serving.load": 0.4})
    question["selection"]["assign"]["econ.serving.load"]["uncertainty"] = 0.25
    (found,) = page([question])
    assert "0.32..0.5" in found["command"] or "32..50" in found["command"]
    by_command = resolved(shlex.split(found["command"])[1:], capsys)
    assert math.isclose(by_command["value"], found["targets"][0]["value"], rel_tol=TOLERANCE)


def test_solve_for(page: Any) -> None:
    cost = 0.5e-6
    question = {
        **ask(SERVING, targets=(COST,)),
        "solve": {"input": "econ.gpu.price", "required": cost},
    }
    impossible = {
        **ask(SERVING, targets=(COST,)),
        "solve": {"input": "econ.serving.load", "required": 1e-9},
    }
    found, none = page([question, impossible])
    (price, *_) = found["solved"]["roots"]
    solution = built_in.preset(SERVING)
    solved = solution.registry.solve(
        ["econ.gpu.price"], solution.given, {COST: cost}, solution.variants
    )
    assert math.isclose(price, solved.values["econ.gpu.price"], rel_tol=1e-8)
    # A closed form: the cost falls with the load, which ends at 1, so that 1 comes nearest.
    assert none["solved"]["roots"] == []
    assert math.isclose(none["solved"]["nearest"]["input"], 1.0)
