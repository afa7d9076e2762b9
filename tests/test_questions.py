"""Every question is a function: what it answers is what its command prints with `--json`."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import assay
from assay.answers import Answer, json_text
from assay.cli.app import COMMANDS, run

PRESET = "dense_training_cost_fixture"
TARGET = "econ.cost.per_token"
POWER = "gpu.power=600 W/GPU"
GIVEN = ("--preset", PRESET)
ROW = re.compile(r"^\| `assay ([a-z -]+)` \| `assay\.(\w+)` \| (?:`(/[^`]*)` )?\|$", re.MULTILINE)
"""A question in the guide: its command, its function, and the request of a page."""


@pytest.fixture(scope="module")
def rows(root: Path) -> list[tuple[str, str, str]]:
    return ROW.findall((root / "docs/guides/python.md").read_text("utf-8"))


def test_guide_lists_every_question(rows: list[tuple[str, str, str]]) -> None:
    functions = [function for _, function, _ in rows]
    assert len(functions) == len(set(functions))
    assert set(functions) <= set(assay.__all__)
    questions = {name for name, module in assay._ELSEWHERE.items() if "questions" in module}
    assert questions <= set(functions)
    for command, function, _ in rows:
        words = command.partition(" --")[0].split()
        assert " ".join(words[:2]) in COMMANDS or words[0] in COMMANDS, command
        assert callable(getattr(assay, function))


def test_guide_names_requests_of_the_pages(rows: list[tuple[str, str, str]]) -> None:
    pytest.importorskip("fastapi")
    from assay.ui.app import create_app

    known = {
        path.removeprefix("/api/v1")
        for path in create_app("token-of-these-tests").openapi()["paths"]
    }
    assert {request for _, _, request in rows if request} <= known


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (
            partial(assay.resolve, TARGET, preset=PRESET, assign={"gpu.power": "600 W/GPU"}),
            ["resolve", TARGET, *GIVEN, "--assign", POWER],
        ),
        (partial(assay.resolve, TARGET), ["resolve", TARGET]),
        (
            partial(assay.explain, TARGET, preset=PRESET, depth=1),
            ["explain", TARGET, *GIVEN, "--depth", "1"],
        ),
        (
            partial(assay.solve, ["gpu.power"], {"econ.job.dc_power": "700 kW"}, preset=PRESET),
            ["solve", "--unknown", "gpu.power", "--equal", "econ.job.dc_power=700 kW", *GIVEN],
        ),
        (
            partial(assay.minimize, TARGET, ["gpu.power=400,500 W/GPU"], preset=PRESET),
            ["minimize", TARGET, "--over", "gpu.power=400,500 W/GPU", *GIVEN],
        ),
        (
            partial(assay.sweep, [TARGET], ["gpu.power=400,500 W/GPU"]),
            ["sweep", TARGET, "--over", "gpu.power=400,500 W/GPU"],
        ),
        (
            partial(assay.diff, PRESET, PRESET, assign_after={"gpu.power": "600 W/GPU"}),
            ["diff", PRESET, PRESET, "--assign", POWER],
        ),
        (partial(assay.sensitivity, TARGET, preset=PRESET), ["sensitivity", TARGET, *GIVEN]),
        (partial(assay.describe, TARGET), ["show", TARGET]),
        (partial(assay.list_relations, scope="hbm"), ["list", "--relations", "--scope", "hbm"]),
        (partial(assay.scenario_report, [PRESET]), ["scenario-report", PRESET]),
        (partial(assay.catalog_entry, "accelerators/l4"), ["catalog", "show", "accelerators/l4"]),
        (partial(assay.root_debt, families=True), ["root-debt", "--families"]),
        (
            partial(assay.predict_step, "llama-3.1-8b", "h200_sxm", sequences=8),
            ["predict", "--model", "llama-3.1-8b", "--gpu", "h200_sxm", "--batch", "8"],
        ),
        (
            partial(assay.predict_load, "llama-3.1-8b", "h200_sxm", [1.0, 100.0]),
            ["predict-load", "--model", "llama-3.1-8b", "--gpu", "h200_sxm", "--rates", "1,100"],
        ),
        (assay.list_traces, ["trace", "list"]),
    ],
    ids=lambda value: "" if callable(value) else " ".join(value),
)
def test_function_answers_what_its_command_prints(
    question: Callable[[], Answer], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = question()
    code = run([*command, "--json", "--verbose"])
    assert json_text(answer) == capsys.readouterr().out
    assert code == (answer.problem.exit_code if answer.problem else 0)
