from __future__ import annotations

import json
import math
import subprocess
import sys
import threading

import pytest
from fake_engine import FakeEngine
from fake_server import Behavior, fake_server
from running_server import running

from assay.diagnose.live import client as live_client, diagnose_server
from assay.diagnose.live.client import Client
from assay.errors import AssayError, InputError
from assay.http_client import ServerError

TRACE_KEYS = {
    "model", "gpu", "engine", "tensor", "batch", "context", "phase", "step_ns", "predicted_ns", "lo",
    "hi", "floor_ns", "waterfall", "causes", "violations", "predictions", "degradations",
}  # fmt: skip
CAUSE_KEYS = {
    "name", "ns_per_token", "lo", "hi", "status", "evidence", "fix", "mechanism", "part_of", "within",
    "beyond_step",
}  # fmt: skip


def causes(data):
    return {cause["name"]: cause for cause in data["causes"]}


@pytest.fixture(scope="module")
def loaded():
    """A server with a queue, a full cache, pre-emptions and prompts that are not cached."""
    behavior = Behavior(
        step_s=0.005,
        prefill_s=0.0001,
        grows={
            "tokens": 1000.0, "prompt_tokens": 4000.0, "requests": 10.0, "queue_s": 5.0,
            "ttft_s": 8.0, "preemptions": 2.0, "queries": 4000.0, "hits": 400.0,
        },
        gauges={"running": 4.0, "waiting": 3.0, "kv": 0.97},
    )  # fmt: skip
    with fake_server(behavior) as url:
        yield diagnose_server(url, gpu="h200", duration_s=12.0, most_at_once=4).to_json()


def test_the_report_has_the_keys_of_a_trace(loaded):
    assert loaded.keys() >= TRACE_KEYS
    assert all(cause.keys() == CAUSE_KEYS for cause in loaded["causes"])
    assert json.loads(json.dumps(loaded)) == loaded
    assert math.isclose(sum(term["ns"] for term in loaded["waterfall"]), loaded["step_ns"])
    assert {one["invariant"]: one["verdict"] for one in loaded["violations"]}["kernel time"] == (
        "not measured"
    )
    assert any("need a trace: assay trace attach --url" in one for one in loaded["degradations"])


def test_the_prediction_is_of_the_servers_model_beside_its_load(loaded):
    assert loaded["server"] == "vLLM"
    assert loaded["engine"] == "vllm"
    assert (loaded["model"], loaded["gpu"]) == ("llama-3.1-8b", "h200_sxm")
    # Four requests of others run beside the probe.
    assert loaded["batch"] == 5
    assert loaded["lo"] < loaded["predicted_ns"] < loaded["hi"]
    # 15 GB of weights at the catalog's bandwidth.
    assert 2.5e6 < loaded["floor_ns"] < 3.6e6
    assert [row["concurrency"] for row in loaded["concurrency"]] == [1, 2, 4]
    assert all(row["predicted_ns"] is not None for row in loaded["ttft"])


def test_queueing_is_the_servers_own_count(loaded):
    queued = causes(loaded)["queueing"]
    # 5 s of waiting for 1,000 tokens between scrapes.
    assert queued["ns_per_token"] == pytest.approx(5e6, rel=1e-6)
    assert queued["lo"] <= queued["ns_per_token"] <= queued["hi"]
    assert "3 requests waited at most" in queued["evidence"][0]["statement"]


def test_a_full_cache_is_told_as_a_reason_to_queue(loaded):
    full = causes(loaded)["KV cache full"]
    assert full["within"] == "queueing"
    assert full["status"] == "cannot be told apart from queueing"
    assert "97%" in full["evidence"][0]["statement"]


def test_preemptions_are_bounded_by_what_a_first_token_takes(loaded):
    again = causes(loaded)["pre-emption"]
    # 2 of them at 0.8 s for 1,000 tokens, at most.
    assert (again["ns_per_token"], again["lo"]) == (0.0, 0.0)
    assert again["hi"] == pytest.approx(1.6e6, rel=1e-6)


def test_prefixes_that_are_not_cached_are_found_by_repeating_one(loaded):
    missed = causes(loaded)["prefix cache misses"]
    # 3,600 of 4,000 prompt tokens for 1,000 tokens at 100 us each.
    assert 0.5 * 3.6 * 1e5 <= missed["hi"] <= 2.0 * 3.6 * 1e5
    assert missed["evidence"][0]["source"] == "experiment"
    assert "enable_prefix_caching=False" in missed["evidence"][0]["statement"]
    assert loaded["settings"] == {"cache_dtype": "auto", "enable_prefix_caching": "False"}


def test_an_idle_server_has_no_load_to_explain():
    with fake_server(Behavior(has_prefix_cache=True, prefill_s=0.0001)) as url:
        data = diagnose_server(url, duration_s=4.0, most_at_once=2).to_json()
    assert any("had no load of its own" in one for one in data["degradations"])
    assert "prefix cache misses" not in causes(data)
    assert "queueing" not in causes(data)
    # A sleep is never shorter than it was asked for, and longer on a busy machine.
    assert 4e6 <= data["step_ns"] <= 50e6
    # No GPU was named, and none is here to be seen.
    assert data["predicted_ns"] is None
    assert [term["name"] for term in data["waterfall"]] == ["unknown"]


def test_tokens_are_counted_and_not_chunks():
    with fake_server(Behavior(step_s=0.02, chunk=4)) as url:
        answer = Client(url).complete("m", "one two three", 32)
    assert answer.completion_tokens == 32
    assert len(answer.arrivals_s) == 8
    # Seven steps come after the first chunk, and a sleep is never shorter than asked for; a busy
    # machine may read the first chunk late, so the time from the request on bounds them.
    assert answer.arrivals_s[-1] - answer.sent_s >= 7 * 0.02
    assert answer.tpot_s == pytest.approx((answer.arrivals_s[-1] - answer.arrivals_s[0]) / 31)


def test_a_server_without_usage_is_refused():
    with fake_server(Behavior(sends_usage=False)) as url, pytest.raises(ServerError) as caught:
        Client(url).complete("m", "one", 2)
    assert "expected the usage at the end of a stream" in caught.value.message
    assert "chunks are not tokens" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("data: " + "[" * 100_000, "expected an answer, got: "),
        ("data: {", "expected an answer, got: "),
        ('data: {"error": {"message": "out of\\u001b[2J memory"}}', r"out of\x1b[2J memory"),
        ('data: {"usage": {"prompt_tokens": 1, "completion_tokens": -3}}', "got {'prompt_tokens'"),
        (
            'data: {"usage": {"prompt_tokens": 1, "completion_tokens": 3}}',
            "expected text, got none",
        ),
        ("data: [DONE]", "expected the usage at the end of a stream"),
        ("", "expected the usage at the end of a stream"),
    ],
)
def test_answers_that_make_no_sense_are_one_line(line, message):
    with fake_server(Behavior(says=line)) as url, pytest.raises(ServerError) as caught:
        Client(url).complete("m", "one", 2)
    assert message in caught.value.message
    assert caught.value.message.isprintable()


def test_a_stream_that_never_ends_is_left():
    with fake_server(Behavior(step_s=0.02)) as url, pytest.raises(ServerError) as caught:
        Client(url, timeout_s=0.2).complete("m", "one", 200)
    assert "did not end within 0.2 s" in caught.value.message


def test_servers_differ_in_what_they_take():
    behavior = Behavior(takes_ignore_eos=False, has_completions=False)
    with fake_server(behavior) as url:
        client = Client(f"{url}/v1/")
        assert client.url == url
        assert client.complete("m", "one", 3).completion_tokens == 3
        assert client.complete("m", "two", 3).completion_tokens == 3
    assert client.notes == [
        "the server takes no ignore_eos: probes may end before they are asked to"
    ]
    assert "messages" in behavior.bodies[-1]
    assert "ignore_eos" not in behavior.bodies[-1]


def test_a_key_is_sent_and_its_lack_is_said(monkeypatch):
    monkeypatch.delenv("ASSAY_API_KEY", raising=False)
    with fake_server(Behavior(key="secret")) as url:
        with pytest.raises(ServerError) as caught:
            Client(url).model()
        assert caught.value.hint == "the server wants a key: set ASSAY_API_KEY"
        assert "got 401" in caught.value.message
        monkeypatch.setenv("ASSAY_API_KEY", "secret")
        assert Client(url).model().name == "m"


def test_no_metrics_is_said():
    with fake_server(Behavior(has_metrics=False, step_s=0.002)) as url:
        data = diagnose_server(url, duration_s=2.0, most_at_once=1).to_json()
    assert data["server"] is None
    assert data["predicted_ns"] is None
    said = "\n".join(data["degradations"])
    assert "has no metrics" in said
    assert "expected HTTP status 200, got 404" in said
    assert "queueing not examined: needs metrics of the queue" in said


def test_prompts_fit_a_small_context():
    behavior = Behavior(context=160, step_s=0.001)
    with fake_server(behavior) as url:
        diagnose_server(url, duration_s=3.0, most_at_once=1)
    longest = max(len(body["prompt"].split()) + body["max_tokens"] for body in behavior.bodies)
    assert longest <= 160


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("localhost:8000", {}, 'expected http://HOST:PORT, got "localhost:8000"'),
        ("http://user:pass@host:x", {}, 'got "host:x"'),
        ("http://127.0.0.1:9", {}, "expected an answer, got"),
        ("http://127.0.0.1:9", {"duration_s": 0.5}, "--duration: expected 1 to 3,600 seconds"),
        ("http://127.0.0.1:9", {"most_at_once": 0}, "--concurrency: expected 1 to 64, got 0"),
        ("http://127.0.0.1:9", {"gpu": "no such gpu"}, 'unknown accelerator "no such gpu"'),
        ("http://127.0.0.1:9", {"engine": "trt"}, 'unknown engine "trt"'),
    ],
)
def test_bad_input_is_told_before_anything_is_sent(url, options, message):
    with pytest.raises(AssayError) as caught:
        diagnose_server(url, **options)
    assert message in caught.value.message


def test_a_server_that_lists_no_model_is_refused(monkeypatch):
    with fake_server() as url:
        client = Client(url)
        monkeypatch.setattr(live_client, "exchange_json", lambda *args, **options: {"data": []})
        with pytest.raises(ServerError, match="expected a list of models"):
            client.model()


def test_our_own_server_in_process():
    with running(FakeEngine(step_seconds=0.003)) as server:
        data = diagnose_server(server.url, duration_s=3.0, most_at_once=2).to_json()
        assert server.wait_idle()
    assert data["server"] == "assay"
    assert 3e6 <= data["step_ns"] <= 50e6
    assert data["probed"]["engine_generation_tokens"] > 100
    with pytest.raises(InputError, match="--url"):
        diagnose_server("")


@pytest.mark.slow
def test_a_real_engine_is_watched_while_it_works():
    """`assay serve` with the synthetic model on the CPU, and requests of others beside the probes."""
    command = [sys.executable, "-m", "assay", "serve", "synthetic", "--port", "0", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stop = threading.Event()
    try:
        assert child.stdout is not None
        url = json.loads("".join(iter(child.stdout.readline, "}\n")) + "}")["url"]
        client = Client(url)

        def work() -> None:
            while not stop.is_set():
                client.complete("synthetic", "once upon a time there was", 64)

        worker = threading.Thread(target=work)
        worker.start()
        data = diagnose_server(url, duration_s=20.0, most_at_once=4).to_json()
        stop.set()
        worker.join()
    finally:
        stop.set()
        child.kill()
        child.communicate()
    assert data["server"] == "assay"
    assert data["watched"]["engine_generation_tokens"] > 0
    # The other request is in the batch of every probe.
    assert data["batch"] == 2
    observed = {row["concurrency"]: row["tokens_per_second"] for row in data["concurrency"]}
    assert observed[4] > observed[1]
    assert not any("no load of its own" in note for note in data["degradations"])
