"""The page's evaluator, run by Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay import stack
from assay.model.tapes.portable import graph_text
from assay.scenario.portable import portable_scenarios

WEB = Path(__file__).parents[2] / "web"


@pytest.fixture(scope="session")
def scenarios() -> dict[str, Any]:
    return portable_scenarios(stack.registry())


@pytest.fixture(scope="session")
def answer(tmp_path_factory: pytest.TempPathFactory, scenarios: dict[str, Any]) -> Any:
    """Answers by the page's evaluator, run by Node."""
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
    (folder / "graph.json").write_text(graph_text(stack.registry()))
    (folder / "scenarios.json").write_text(json.dumps(scenarios))

    def run(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = folder / "questions.json"
        asked.write_text(json.dumps(questions))
        files = [folder / "graph.json", folder / "scenarios.json", asked]
        done = subprocess.run(
            [node, program, *files], check=True, stdout=subprocess.PIPE, timeout=120
        )
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    return run
