"""The API of receipt, cone, atlas and root debt: what the commands print, and nothing of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from assay.answers import json_text
from assay.cli.app import run
from assay.scenario import built_in
from assay.ui.api import atlas, graph
from assay.ui.app import create_app

TOKEN = "token-of-these-tests"
PRESET = "dense_training_cost_fixture"
TARGET = "econ.cost.per_token"


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(
        create_app(TOKEN),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {TOKEN}"},
        raise_server_exceptions=False,
    )


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (f"receipt/{TARGET}?preset={PRESET}", ["receipt", TARGET, "--preset", PRESET]),
        (f"resolve/{TARGET}?preset={PRESET}", ["resolve", TARGET, "--preset", PRESET]),
        (
            f"receipt/{TARGET}?preset={PRESET}&assign=gpu.power%3D600+W/GPU",
            ["receipt", TARGET, "--preset", PRESET, "--set", "gpu.power=600 W/GPU"],
        ),
        ("cone/thermal.dc.pue?depth=1", ["cone", "thermal.dc.pue", "--depth", "1"]),
        ("cone/thermal.dc.pue?brief=true", ["cone", "thermal.dc.pue", "--brief"]),
        ("show/logic.gate.delay", ["show", "logic.gate.delay"]),
        ("presets", ["list", "--presets"]),
        ("variables?scope=hbm", ["list", "--scope", "hbm"]),
        ("atlas?target=thermal.dc.pue", ["atlas", "--target", "thermal.dc.pue"]),
        ("root-debt?target=gpu.peak_flops", ["root-debt", "--target", "gpu.peak_flops"]),
        ("root/econ.serving.load", ["root", "econ.serving.load"]),
        (
            f"diff?before={PRESET}&target={TARGET}&assign=gpu.power%3D600+W/GPU",
            ["diff", PRESET, PRESET, "--target", TARGET, "--set", "gpu.power=600 W/GPU"],
        ),
    ],
)
def test_answers_are_what_the_commands_print(
    client: TestClient, capsys: pytest.CaptureFixture[str], path: str, command: list[str]
) -> None:
    response = client.get(f"/api/v1/{path}")
    assert response.status_code == 200, response.text
    capsys.readouterr()
    run([*command, "--json", "--verbose"])
    assert response.json() == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("receipt/econ.cost.per_tokn", 404, "did you mean"),
        ("receipt/%3Cimg%20src%3Dx%3E", 404, "unknown variable"),
        (f"receipt/{TARGET}?preset=nothing", 404, "unknown scenario"),
        (f"receipt/{TARGET}?assign=econ.serving.load", 400, "malformed"),
        (f"receipt/{TARGET}?assign=econ.serving.load%3D5+kg", 400, "econ.serving.load"),
        ("cone/thermal.dc.pue?depth=-1", 422, "depth"),
        ("cone/thermal.dc.pue?direction=sideways", 404, "direction"),
        ("root/econ.cost.per_token", 400, "expected a root"),
        ("root-debt?by=variance", 400, "needs a target"),
        ("root-debt?by=luck", 404, "ranking"),
    ],
)
def test_refusals_name_what_was_expected(
    client: TestClient, path: str, status: int, words: str
) -> None:
    response = client.get(f"/api/v1/{path}")
    error = response.json()["error"]
    assert response.status_code == status
    assert words in f"{error['message']} {error['hint']}"


def test_requests_read_no_files(client: TestClient, tmp_path: Path) -> None:
    scenario = tmp_path / "secret.toml"
    scenario.write_text('name = "secret"\ndescription = "x"\n')
    entry = tmp_path / "entry.json"
    entry.write_text("{}")
    for query in (
        f"preset={scenario}",
        "preset=../../secret.toml",
        f"with={entry}",
        "with=accelerators/../../entry.json",
    ):
        response = client.get(f"/api/v1/receipt/{TARGET}?{query}")
        assert response.status_code in (400, 404), query
    for query in (f"before={scenario}", f"before={PRESET}&preset={scenario}"):
        assert client.get(f"/api/v1/diff?target={TARGET}&{query}").status_code == 404


def test_exported_answers_are_those_of_the_server(client: TestClient) -> None:
    answers = [*graph._exported([PRESET]), *atlas._exported([PRESET])]
    by_key = dict(answers)
    assert len(by_key) == len(answers)
    targets = [name for _, name in built_in.preset(PRESET).targets]
    for key in (
        "presets",
        f"receipt/{targets[0]}?preset={PRESET}",
        f"cone/{targets[0]}?brief=true",
        f"show/{targets[0]}",
        "atlas",
        f"atlas?preset={PRESET}&target={targets[0]}",
        "variables?scope=hbm",
    ):
        assert json_text(by_key[key]()) == client.get(f"/api/v1/{key}").text, key
    key, text = next(graph.exported([PRESET]))
    assert json.loads(text) == client.get(f"/api/v1/{key}").json()
    cone = client.get(f"/api/v1/cone/{targets[0]}?brief=true").json()
    assert {f"show/{one['name']}" for one in cone["variables"]} <= by_key.keys()
