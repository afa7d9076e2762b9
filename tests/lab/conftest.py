"""The tape of the whole model, evaluated by the extension and by the page's own program in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay import stack
from assay.errors import AssayError
from assay.scenario.lab import chosen_scenario, scenario_facts
from lab_native_answers import NativeAnswers

WEB = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="session")
def native() -> NativeAnswers:
    """Answers by the extension."""
    return NativeAnswers()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Answers by the page's program: its module for WebAssembly, run by Node."""
    pytest.importorskip("fastapi", reason="pages need the extra ui")
    from assay.ui.api import lab

    esbuild = WEB / "node_modules/.bin/esbuild"
    node = shutil.which("node")
    if node is None or not esbuild.exists():
        pytest.skip("needs Node and the packages of web/ (npm ci)")
    folder = tmp_path_factory.mktemp("tape")
    program = folder / "answers.mjs"
    subprocess.run(
        [esbuild, "tests/tape_answers.ts", "--bundle", "--platform=node", "--format=esm",
         f"--outfile={program}", "--log-level=warning"],
        cwd=WEB, check=True, timeout=60,
    )  # fmt: skip
    (folder / "model.json").write_text(lab._model())
    (folder / "tape.json").write_text(lab._tape())

    def run(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = folder / "questions.json"
        asked.write_text(json.dumps([joined(question) for question in questions]))
        files = [folder / "model.json", folder / "tape.json", asked]
        done = subprocess.run(
            [node, program, *files], check=True, stdout=subprocess.PIPE, timeout=300
        )
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    return run


def joined(question: dict[str, Any]) -> dict[str, Any]:
    """A question with its scenario, as the server would answer the page."""
    selection = question["selection"]
    try:
        scenario = chosen_scenario(
            stack.registry(), selection["preset"], selection["with"], selection["variants"]
        )
    except AssayError as error:
        return {**question, "scenario": None, "error": error.message}
    return {**question, "scenario": scenario_facts(scenario), "error": ""}
