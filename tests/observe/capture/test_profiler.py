"""A live server, captured by its clients between two requests."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from assay.engine import Engine
from assay.engine.server import create_app, served_model
from assay.observe.capture.profiler import TraceProfiler
from assay.observe.trace import Trace


@pytest.fixture
def client(tmp_path: Path):
    engine = Engine.load("synthetic")
    app = create_app(
        engine, served_model(engine, "synthetic"), profiler=TraceProfiler(tmp_path / "traces")
    )
    with TestClient(app) as found:
        yield found


def complete(client: TestClient, tokens: int) -> None:
    body = {"model": "synthetic", "prompt": "Once", "max_tokens": tokens, "ignore_eos": True}
    assert client.post("/v1/completions", json=body).status_code == 200


def test_a_client_captures_a_part_of_the_servers_life(client, tmp_path):
    complete(client, 4)
    begun = client.post("/start_profile").json()
    complete(client, 6)
    assert client.post("/stop_profile").json() == begun
    complete(client, 4)
    assert begun == {"trace": str(tmp_path / "traces" / "trace-1")}
    trace = Trace.open(begun["trace"])
    assert trace.steps["phase"].to_list() == ["prefill", *["decode"] * 5]
    assert trace.header.degradations == []
    client.post("/start_profile")
    complete(client, 3)
    assert client.post("/stop_profile").json()["trace"].endswith("trace-2")


def test_misplaced_calls_are_refused_by_name(client):
    answer = client.post("/stop_profile")
    assert answer.status_code == 400
    assert "expected a trace under way" in answer.json()["error"]["message"]
    assert client.post("/start_profile").status_code == 200
    answer = client.post("/start_profile")
    assert answer.status_code == 400
    assert "expected no trace under way" in answer.json()["error"]["message"]
    assert client.post("/stop_profile").status_code == 200


def test_without_a_profiler_there_is_no_such_route():
    engine = Engine.load("synthetic")
    with TestClient(create_app(engine, served_model(engine, "synthetic"))) as plain:
        assert plain.post("/start_profile").status_code == 404
