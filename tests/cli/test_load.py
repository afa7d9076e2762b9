"""`assay load`: table, JSON, files of other tools, searches, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from streaming_server import Behavior, streaming_server

SMALL = ("--requests", "12", "--output-tokens", "8", "--concurrency", "3")
KEYS = [
    "url", "model", "interface", "workload", "description", "arrival", "rate", "concurrency", "slo",
    "seconds", "load_state", "queue", "figures", "intervals", "unscored", "client_cpu_share",
    "p99_lateness_ms", "disturbances", "errors", "output",
]  # fmt: skip
FIND_KEYS = [
    "url", "model", "workload", "find", "slo", "least_share", "best", "above", "nearest", "points",
]  # fmt: skip
POINT_KEYS = [
    "load", "unit", "holds", "attainment", "binds", "requests", "load_state", "figures",
]  # fmt: skip


def test_a_window_as_text_and_as_json(cli: Any) -> None:
    # A quarter of each request waits for its first token: far from the half that is a backlog.
    with streaming_server(Behavior(ttft_s=0.03, itl_s=0.012)) as url:
        text = cli("load", url, *SMALL, "--slo", "ttft=2s,tpot=1ms")
        data = cli("load", url, *SMALL, "--json").data
    assert text.code == 0
    assert f"server    {url}/v1/completions" in text.out
    assert "closed loop, 3 requests at once" in text.out
    assert "12 requests answered, 0 failed" in text.out
    assert "state     stable" in text.out
    assert "0.0% keep ttft <= 2000 ms, tpot <= 1 ms" in text.out
    header = next(line for line in text.out.splitlines() if line.startswith("ms "))
    assert header.split() == ["ms", "mean", "95", "%", "interval", "p50", "p90", "p99"]
    rows = [line.split()[0] for line in text.out.splitlines() if line[:4].strip().isupper()]
    assert rows == ["TTFT", "TPOT", "ITL", "E2EL"]
    data.pop("notes", None)
    assert list(data) == KEYS
    assert data["figures"]["completed"] == 12
    assert data["figures"]["total_output_tokens"] == 96
    assert data["figures"]["mean_ttft_ms"] >= 30
    bounds = data["intervals"]["mean_ttft_ms"]
    assert bounds["lo"] <= data["figures"]["mean_ttft_ms"] <= bounds["hi"]
    rate = data["intervals"]["output_throughput"]
    assert rate["lo"] <= data["figures"]["output_throughput"] <= rate["hi"]


def test_an_overloaded_window_gives_no_latencies(cli: Any) -> None:
    with streaming_server(Behavior(ttft_s=0.04, slots=1)) as url:
        found = cli("load", url, "--rate", "60", "--requests", "60", "--output-tokens", "4")
    assert found.code == 0
    assert "state     overloaded" in found.out
    assert "open loop (poisson), 60 requests/s" in found.out
    assert "latencies are not given" in found.out
    assert "TTFT " not in found.out


@pytest.mark.parametrize(
    ("form", "key"), [("vllm", "mean_tpot_ms"), ("llm-d", "results"), ("records", "first_token_s")]
)
def test_files_of_other_tools(cli: Any, tmp_path: Path, form: str, key: str) -> None:
    path = tmp_path / "result.json"
    with streaming_server() as url:
        found = cli("load", url, *SMALL, "--output", str(path), "--format", form)
        again = cli("load", url, *SMALL, "--output", str(path), "--format", form)
    assert found.code == 0
    assert "written to " in found.out
    lines = path.read_text().splitlines()
    first = json.loads(lines[0]) if form == "records" else json.loads(path.read_text())
    assert key in first
    assert len(lines) == 12 or form != "records"
    assert again.code == 2
    assert "exists already" in again.err
    assert "hint: --force overwrites it" in again.err


def test_failures_are_counted_by_their_error(cli: Any) -> None:
    some = Behavior(fails=lambda number: "500" if number % 4 == 1 else None)
    with streaming_server(some) as url:
        found = cli("load", url, *SMALL, "--warmup", "0")
    assert found.code == 0
    assert "9 requests answered, 3 failed" in found.out
    assert "HTTP 500" in found.out
    with streaming_server(Behavior(fails=lambda number: "drop")) as url:
        found = cli("load", url, *SMALL, "--json")
    assert found.code == 3
    assert found.data["errors"] == {"ConnectionResetError: the server closed the connection": 12}
    assert "expected answers, got none: ConnectionResetError" in found.err


def test_a_search_as_text_and_as_json(cli: Any) -> None:
    words = ("--find", "max-concurrency", "--slo", "e2el=45ms", "--output-tokens", "2")
    # 20 ms each, one after the other: two at once take 40 ms.
    server = Behavior(ttft_s=0.01, itl_s=0.01, slots=1)
    with streaming_server(server) as url:
        found = cli("load", url, *words, "--requests", "30", "--attainment", "60%")
        data = cli("load", url, *words, "--attainment", "0.6", "--concurrency", "1", "--json").data
    assert found.code == 0
    assert "e2el <= 45 ms, kept by 0.6 of requests or more" in found.out
    assert "max-concurrency  2 at once" in found.out or "max-concurrency  1 at once" in found.out
    assert "e2el binds" in found.out
    data.pop("notes", None)
    assert list(data) == FIND_KEYS
    assert list(data["best"]) == POINT_KEYS
    assert (data["best"]["load"], data["best"]["unit"], data["above"]) == (1, "at once", None)


def test_an_infeasible_slo_is_said(cli: Any) -> None:
    with streaming_server(Behavior(ttft_s=0.02)) as url:
        found = cli("load", url, "--find", "max-rate", "--slo", "ttft=5ms", "--requests", "30")
    assert found.code == 1
    assert "error: no rate holds the SLO: ttft binds, 0.0% of requests keep it" in found.err
    assert "1 at once" in found.out


def test_a_recording_is_sent_whole_and_in_time(cli: Any, tmp_path: Path) -> None:
    lines = [
        json.dumps({"timestamp": 100 * number, "input_length": 8, "output_length": 3,
                    "hash_ids": [number]})
        for number in range(6)
    ]  # fmt: skip
    path = tmp_path / "mooncake.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with streaming_server() as url:
        data = cli("load", url, "--workload", str(path), "--json").data
    assert data["arrival"] == "replay"
    assert data["figures"]["completed"] == 6
    assert data["figures"]["total_output_tokens"] == 18
    # Its half second: neither at once nor with its milliseconds read as seconds.
    assert 0.5 < data["seconds"] < 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ftp://host"], 'URL: expected http://HOST:PORT, got "ftp://host"'),
        (["http://127.0.0.1:9"], "expected an answer, got"),
        (["http://127.0.0.1:9", "--workload", "chatt"], "workload"),
        (["http://127.0.0.1:9", "--slo", "ttft"], "--slo: expected NAME=TIME"),
        (["http://127.0.0.1:9", "--rate", "0"], "--rate: expected requests per second above 0"),
        (["http://127.0.0.1:9", "--find", "max"], 'unknown search of --find "max"'),
        (["http://127.0.0.1:9", "--format", "csv"], 'unknown format "csv"'),
        (["http://127.0.0.1:9", "--interface", "grpc"], 'unknown interface "grpc"'),
        (["http://127.0.0.1:9", "--output", "/nonesuch/a"], "expected a file in a folder"),
        (
            ["http://127.0.0.1:9", "--find", "max-rate", "--slo", "ttft=1s", "--seconds", "3"],
            "--seconds: expected none with --find, got it",
        ),
        (["http://127.0.0.1:9", "--find", "max-rate"], "--find: expected an SLO, got none"),
    ],
)
def test_bad_input_is_one_line(cli: Any, words: list[str], message: str) -> None:
    found = cli("load", *words)
    assert found.code == 2
    assert message in found.err
    assert found.out == ""
