"""`/plan`: the answers of the command, and no file of this machine."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from assay.answers import json_text
from assay.load.capacity import plan_capacity
from assay.ui.app import PREFIX, create_app

TOKEN = "a-token-of-the-plan-tests"


@pytest.fixture(scope="module")
def client() -> TestClient:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
    return TestClient(create_app(TOKEN), headers=headers)


def test_plan_within_limits_is_that_of_the_command(client: TestClient) -> None:
    query = {"gpus": "b200", "rate": 9, "ttft": 1, "tpot": 0.05, "input": "300", "output": "20"}
    sent = client.get(f"{PREFIX}/plan/within", params=query)
    assert sent.status_code == 200
    plan = plan_capacity(
        model="llama-3.1-8b", rate=9.0, slo="ttft=1s,tpot=50ms,p=99%", gpus=["b200"],
        input_tokens="300", output_tokens="20",
    )  # fmt: skip
    assert sent.json() == json.loads(json_text(plan))


@pytest.mark.parametrize(
    "query",
    [
        {"model": "/etc/passwd"},
        {"model": "config.json"},
        {"input": "/etc/passwd"},
        {"output": "lengths.txt"},
        {"gpus": "cuda:0"},
        {"gpus": "calibration.json"},
        {"gpus": ","},
        {"rate": "-1"},
    ],
    ids=str,
)
def test_plan_reads_no_files(client: TestClient, query: dict[str, str]) -> None:
    for path in ("by-limits", "within"):
        sent = client.get(f"{PREFIX}/plan/{path}", params=query)
        assert 400 <= sent.status_code < 500
        assert "root:" not in sent.text


def test_choices_are_of_the_catalog(client: TestClient) -> None:
    choices = client.get(f"{PREFIX}/plan/choices").json()
    assert "llama-3.1-8b" in choices["models"]
    assert {"h100_sxm", "b200_sxm"} < set(choices["gpus"])
