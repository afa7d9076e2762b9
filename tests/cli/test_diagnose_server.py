"""`assay diagnose --url`: report, JSON, and what it refuses."""

from typing import Any

import pytest
from fake_server import Behavior, fake_server


def test_a_server_is_reported_as_text_and_as_json(cli: Any) -> None:
    # A queue of 4 ms for each token.
    busy = Behavior(
        step_s=0.002, grows={"tokens": 500.0, "requests": 5.0, "queue_s": 2.0},
        gauges={"running": 1.0, "waiting": 2.0},
    )  # fmt: skip
    options = ["--gpu", "h200", "--duration", "2", "--concurrency", "2"]
    with fake_server(busy) as url:
        text = cli("diagnose", "--url", url, *options).out
        data = cli("diagnose", "--url", url, *options, "--json").data
    assert f"server     {url}, vLLM" in text
    assert "beside 1 request of others" in text
    assert "at once" in text
    assert "queueing" in text
    (queued,) = (cause for cause in data["causes"] if cause["name"] == "queueing")
    assert queued["ns_per_token"] == pytest.approx(4e6)
    assert data["server"] == "vLLM"
    assert sum(term["ns"] for term in data["waterfall"]) == pytest.approx(data["step_ns"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected a trace or --url, got neither"),
        (["trace.json", "--url", "http://127.0.0.1:9"], "expected a trace or --url, got both"),
        (["--url", "http://127.0.0.1:9"], "expected an answer, got"),
        (["--url", "http://127.0.0.1:9", "--batch", "4"], "--batch: expected it with a trace"),
        (["--url", "http://127.0.0.1:9", "--gpu", "nonesuch"], 'unknown accelerator "nonesuch"'),
        (["trace.json", "--duration", "5"], "expected them with --url, got a trace"),
    ],
)
def test_bad_input_is_one_line(cli: Any, words: list[str], message: str) -> None:
    found = cli("diagnose", *words)
    assert found.code == 2
    assert message in found.err
