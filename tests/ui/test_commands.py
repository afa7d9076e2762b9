"""The API and the command line are one: each answer is, byte for byte, what a command prints."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from browser_pages import RUN
from fastapi.testclient import TestClient

import generate_api_reference
from assay.cli.app import run
from assay.store.describing import item_of
from assay.store.layout import init_store
from assay.store.pushing import push
from assay.ui.app import PREFIX, create_app

TOKEN = "token-of-the-command-tests"
PRESET = "dense_training_cost_fixture"
TARGET = "econ.cost.per_token"
TRACE = "stored"
SLOW = pytest.mark.slow
SERVED = "model=llama-3.1-8b&rate=20&input=256&output=64&gpus=h100"
PLAN = [
    *("plan", "--model", "llama-3.1-8b", "--rate", "20"),
    *("--input-tokens", "256", "--output-tokens", "64", "--gpu", "h100"),
]

COMMANDS = [
    (f"receipt/{TARGET}?preset={PRESET}", ["receipt", TARGET, "--preset", PRESET]),
    (f"resolve/{TARGET}?preset={PRESET}", ["resolve", TARGET, "--preset", PRESET]),
    ("cone/thermal.dc.pue?depth=1", ["cone", "thermal.dc.pue", "--depth", "1"]),
    ("show/logic.gate.delay", ["show", "logic.gate.delay"]),
    ("presets", ["list", "--presets"]),
    ("variables?scope=hbm", ["list", "--scope", "hbm"]),
    ("root/econ.serving.load", ["root", "econ.serving.load"]),
    (
        "walk/gpu.cycle_energy/training.step_time?preset=llama3_8b_8_h100_training",
        ["walk", "gpu.cycle_energy", "training.step_time", "--preset", "llama3_8b_8_h100_training"],
    ),
    (f"diff?before={PRESET}&target={TARGET}", ["diff", PRESET, PRESET, "--target", TARGET]),
    ("runs", ["runs", "list"]),
    (f"runs/{RUN}", ["runs", "show", RUN]),
    (f"runs/{RUN}/compared-with/{RUN}", ["runs", "compare", RUN, RUN]),
    (f"runs/{RUN}/report", ["report", RUN, "--no-open"]),
    ("traces", ["trace", "list"]),
    (
        "store?terms=kind%3Drun+verdict%3Dimproved",
        ["store", "find", "kind=run", "verdict=improved"],
    ),
    (f"traces/{TRACE}/summary", ["trace", "summary", TRACE]),
    pytest.param("atlas", ["atlas"], marks=SLOW),
    pytest.param(
        "root-debt?target=gpu.peak_flops", ["root-debt", "--target", "gpu.peak_flops"], marks=SLOW
    ),
    pytest.param("ask?question=pue+of+a+site", ["ask", "pue of a site"], marks=SLOW),
    pytest.param(f"runs/{RUN}/verification", ["verify-report", RUN], marks=SLOW),
    pytest.param(f"traces/{TRACE}/diagnosis", ["diagnose", TRACE], marks=SLOW),
    pytest.param("validate", ["validate"], marks=SLOW),
    pytest.param(f"plan/by-limits?{SERVED}", [*PLAN, "--by-slo"], marks=SLOW),
    pytest.param(
        f"plan/within?{SERVED}&ttft=1&tpot=0.05",
        [*PLAN, "--slo", "ttft=1s,tpot=50ms,p=99%"],
        marks=SLOW,
    ),
]
"""Requests, and the commands that print the same."""

WITHOUT_A_COMMAND = {
    "/about", "/documents", "/documents/{name}", "/glossary", "/headlines/{preset}",
    "/lab/model", "/lab/tape", "/lab/scenario", "/live/state", "/live/floors", "/plan/choices",
    "/runs/{run}/sequences", "/runs/{run}/plan", "/speech", "/store/place",
    "/runs/{run}/timeline", "/runs/{run}/events", "/traces/{trace}/timeline", "/validate/cases",
}  # fmt: skip
"""What pages draw and no command prints."""


@pytest.fixture(scope="module")
def client(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server whose scratch folder holds a run, and its trace as a stored one."""
    scratch = tmp_path_factory.mktemp("commands")
    (scratch / "runs").mkdir()
    with tarfile.open(root / "docs" / "examples" / "h200-own-engine" / "run.tar.gz") as archive:
        archive.extractall(scratch / "runs", filter="data")
    shutil.copytree(scratch / "runs" / RUN / "trace", scratch / "traces" / TRACE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SCRATCH", str(scratch))
        patch.setenv("ASSAY_STORE", str(scratch / "store"))
        init_store(None)
        push([item_of(scratch / "runs" / RUN)])
        yield TestClient(
            create_app(TOKEN),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_answers_are_what_commands_print(
    client: TestClient, capsys: pytest.CaptureFixture[str], path: str, command: list[str]
) -> None:
    response = client.get(f"{PREFIX}/{path}")
    assert response.status_code == 200, response.text
    capsys.readouterr()
    code = run([*command, "--json", "--verbose"])
    assert response.text == capsys.readouterr().out
    assert response.headers.get("assay-exit-code", "0") == str(code)


@pytest.mark.slow
def test_the_graph_of_the_lab_is_the_exported_one(
    client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["export", "--format", "tape"]) == 0
    # The command writes JSON by itself, which a terminal wants to end with a line.
    assert client.get(f"{PREFIX}/lab/graph").text.strip() == capsys.readouterr().out.strip()


def test_every_route_has_its_command_or_is_listed(client: TestClient) -> None:
    asked = [str(one.values[0] if hasattr(one, "values") else one[0]) for one in COMMANDS]
    paths = client.get(f"{PREFIX}/openapi.json").json()["paths"]
    asked.append("lab/graph")
    left = {
        path.removeprefix(PREFIX)
        for path, methods in paths.items()
        if "get" in methods and not any(_is_of(one, path) for one in asked)
    }
    assert left == WITHOUT_A_COMMAND


def _is_of(request: str, path: str) -> bool:
    """Whether a request is one of a route: parts in braces stand for anything."""
    given = request.partition("?")[0].split("/")
    wanted = path.removeprefix(f"{PREFIX}/").split("/")
    return len(given) == len(wanted) and all(
        one.startswith("{") or one == other for one, other in zip(wanted, given, strict=True)
    )


def test_reference_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_api_reference.main(["--check"]) == 0, capsys.readouterr().err
