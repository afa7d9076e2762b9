"""The load client against a server whose schedule is known."""

from __future__ import annotations

import itertools
import resource
import shutil
import ssl
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from load_windows import quietest_window, run_window
from streaming_server import Behavior, streaming_server

from assay.errors import InputError
from assay.http_client import ServerError
from assay.load.client import ClientOptions, LoadClient, Progress
from assay.load.workloads.workload import PlannedRequest, Window, Workload
from assay.openai_api.address import KEY_VARIABLE
from assay.openai_api.answers import PART


def closed(concurrency: int, count: int, tokens: int = 5) -> Workload:
    requests = tuple(PlannedRequest(i, f"prompt {i} of words", tokens) for i in range(count))
    return Workload("closed", "", requests, "closed", concurrency)


def opened(times: list[float], tokens: int = 5, concurrency: int | None = None) -> Workload:
    requests = tuple(
        PlannedRequest(i, f"prompt {i}", tokens, arrival_s=at) for i, at in enumerate(times)
    )
    return Workload("open", "", requests, "poisson", concurrency, rate=10.0)


def test_times_and_tokens_are_those_of_the_server() -> None:
    # A fifth of the time goes by before the first token: far from the half that is a backlog.
    with streaming_server(Behavior(ttft_s=0.05, itl_s=0.04)) as url:
        found = quietest_window(url, closed(4, 8, tokens=6), Window(requests=8), {"threads": 2})
    assert found.errors == 0
    assert found.output_tokens == 48
    assert {one.prompt_tokens for one in found.records} == {4}
    assert [one.number for one in sorted(found.records, key=lambda one: one.number)] == list(
        range(8)
    )
    # Each is as long as it must be, and two rounds of four fit one after the other.
    assert min(one.first_token_s - one.sent_s for one in found.records) >= 0.05
    assert 50 <= found.figures["median_ttft_ms"] < 200
    # A first token that was read late is followed by others sooner.
    assert 20 <= found.figures["median_tpot_ms"] < 160
    assert 0.5 <= found.seconds < 2.0
    assert all(len(one.itls_s) == 5 for one in found.records)
    assert found.settings == {"threads": 2}
    assert found.load_state == "stable"
    assert found.client_cpu_share is not None
    assert 0 < found.client_cpu_share < 1
    assert found.details["model"] == "m"
    assert found.details["interface"] == "/v1/completions"
    assert found.started_at == pytest.approx(time.time(), abs=30)


def test_tokens_are_counted_not_chunks() -> None:
    with streaming_server(Behavior(chunk=4, itl_s=0.03)) as url:
        found = run_window(url, closed(1, 1, tokens=12), Window(requests=1))
    (one,) = found.records
    assert (one.output_tokens, len(one.itls_s)) == (12, 2)
    assert found.figures["mean_tpot_ms"] == pytest.approx(1e3 * sum(one.itls_s) / 11)


def test_equal_answers_have_equal_digests() -> None:
    with streaming_server() as url, LoadClient(url) as client:
        first = client.run_window(closed(2, 4), Window(requests=4))
        again = client.run_window(closed(2, 4), Window(requests=4))
        other = client.run_window(closed(2, 4, tokens=6), Window(requests=4))
    assert {one.digest for one in first.records} == {one.digest for one in again.records}
    assert {one.digest for one in first.records} != {one.digest for one in other.records}


def test_connections_are_kept_between_requests_and_windows() -> None:
    behavior = Behavior()
    with streaming_server(behavior) as url, LoadClient(url) as client:
        client.prepare()
        before = behavior.connections
        client.run_window(closed(3, 12), Window(requests=12))
        client.run_window(closed(3, 12), Window(requests=12))
        assert behavior.connections - before == 3


def test_a_server_that_closes_after_each_answer() -> None:
    behavior = Behavior(framing="close")
    with streaming_server(behavior) as url:
        found = run_window(url, closed(2, 6), Window(requests=6))
    assert found.errors == 0
    assert found.output_tokens == 30
    assert behavior.connections >= 6


def test_an_open_loop_keeps_its_schedule_whatever_the_answers_do() -> None:
    times = [0.0, 0.05, 0.06, 0.2, 0.3]
    # A client that waited for answers would send the second request after two seconds.
    with streaming_server(Behavior(ttft_s=2.0)) as url:
        found = run_window(url, opened(times), Window(requests=5))
    assert [one.scheduled_s for one in found.records] == pytest.approx(times)
    late = [one.sent_s - (one.scheduled_s or 0.0) for one in found.records]
    assert all(0 <= one < 1.0 for one in late)
    assert found.records[-1].sent_s < found.records[0].end_s
    assert found.details["p99_lateness_ms"] == pytest.approx(1e3 * max(late), rel=0.1)


def test_a_limit_holds_requests_of_an_open_loop_back() -> None:
    with streaming_server(Behavior(ttft_s=0.1)) as url:
        found = run_window(url, opened([0.0, 0.01, 0.02], concurrency=1), Window(requests=3))
    ordered = sorted(found.records, key=lambda one: one.sent_s)
    assert all(after.sent_s >= before.end_s for before, after in itertools.pairwise(ordered))
    # That is no fault of the client.
    assert found.disturbances == ()


def test_a_window_of_seconds_starts_nothing_after_them() -> None:
    with streaming_server(Behavior(ttft_s=0.1)) as url, LoadClient(url) as client:
        found = client.run_window(closed(2, 3), Window(seconds=1.0))
        # Its three requests are asked again and again; each answer takes 108 ms at least, so that
        # two at once are at most twenty that began within the second.
        assert 6 <= len(found.records) <= 20
        assert max(one.sent_s for one in found.records) < 2.0
        times = [number / 20 for number in range(8)]
        found = client.run_window(opened(times), Window(seconds=0.22))
        assert len(found.records) == 5


def test_an_offset_starts_later_and_goes_on_from_the_first() -> None:
    behavior = Behavior()
    with streaming_server(behavior) as url:
        found = run_window(url, closed(1, 4), Window(requests=3, offset=2, warmup_requests=1))
    # Numbers go on, so that no two records have the same.
    assert [one.number for one in found.records] == [2, 3, 4]
    asked = [body["prompt"] for body in behavior.bodies if body["max_tokens"] > 1]
    assert asked == [f"prompt {number} of words" for number in (1, 2, 3, 0)]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("500", 'HTTP 500: {"error": {"message": "out of memory"}}'),
        ("drop", "ConnectionResetError: the server closed the connection"),
        ("garbage", "expected server-sent events of JSON"),
        ("error", "the engine died"),
        ("hang", "timeout after 2 s"),
    ],
)
def test_a_request_that_fails_keeps_its_error_and_is_not_asked_again(
    failure: str, error: str
) -> None:
    behavior = Behavior(fails=lambda number: failure if number == 1 else None)
    # A busy machine may take its time over the other requests.
    options = ClientOptions(timeout_s=2.0 if failure == "hang" else 60.0)
    with streaming_server(behavior) as url:
        found = run_window(url, closed(1, 4), Window(requests=4), options=options)
    failed = [one for one in found.records if one.error is not None]
    assert len(found.records) == 4
    assert len(failed) == 1
    assert str(failed[0].error).startswith(error)
    assert failed[0].first_token_s is None
    assert found.figures["failed"] == 1.0
    assert found.figures["total_output_tokens"] == 15.0


def test_a_server_without_usage_cannot_be_measured() -> None:
    with streaming_server(Behavior(sends_usage=False)) as url:
        found = run_window(url, closed(1, 2), Window(requests=2))
    assert found.errors == 2
    assert str(found.records[0].error).startswith("expected the usage at the end of the stream")


def test_chats_where_there_are_no_completions() -> None:
    behavior = Behavior(has_completions=False, silent_chunks=1, ttft_s=0.05)
    with streaming_server(behavior) as url:
        found = run_window(url, closed(1, 2), Window(requests=2))
    assert found.errors == 0
    assert found.details["interface"] == "/v1/chat/completions"
    assert behavior.bodies[-1]["messages"][0]["content"] == "prompt 1 of words"
    # The chunk that names the role came at once: it is no token.
    assert found.figures["median_ttft_ms"] >= 50
    assert len(found.records[0].itls_s) == 4


CHAT = PlannedRequest(
    0,
    "system: Be brief.\n\nuser: Why?\n\nassistant:",
    5,
    fields={"tools": [{"type": "function"}], "stop": "end", "model": "gpt"},
    messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}),
)
MIXED = Workload("mixed", "", (CHAT, PlannedRequest(1, "a prompt", 5)), "closed", 1)


def test_a_conversation_is_sent_as_a_chat_and_a_prompt_as_a_completion() -> None:
    behavior = Behavior()
    with streaming_server(behavior) as url:
        found = run_window(url, MIXED, Window(requests=2))
    chat, completion = behavior.bodies[-2:]
    assert chat["messages"] == list(CHAT.messages)
    assert (chat["tools"], chat["stop"], chat["model"]) == ([{"type": "function"}], "end", "m")
    assert (completion["prompt"], "messages" in completion) == ("a prompt", False)
    assert found.errors == 0
    assert found.details["interface"] == "/v1/chat/completions, /v1/completions"
    assert found.details["notes"] == (
        "requests for models that the server does not list ask for m",
    )


def test_a_conversation_is_one_text_where_there_are_no_chats() -> None:
    behavior = Behavior(has_chats=False)
    with streaming_server(behavior) as url:
        found = run_window(url, MIXED, Window(requests=2))
    asked = behavior.bodies[-2]
    assert asked["prompt"] == CHAT.prompt
    assert (asked["stop"], "tools" in asked) == ("end", False)
    assert found.details["interface"] == "/v1/completions"
    assert found.details["notes"][0].startswith(
        "conversations are sent as one text with the roles named: the server answers "
        "/v1/chat/completions with HTTP 404"
    )


def test_thoughts_text_and_calls_are_told_apart() -> None:
    said = [
        {"reasoning_content": "so"},
        {"reasoning_content": "on"},
        {"content": "a"},
        {"content": "b"},
        {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    ]
    with streaming_server(Behavior(delta=lambda made: said[made])) as url:
        found = run_window(url, MIXED, Window(requests=1))
    # A parser that takes a thought for text changes an answer, too.
    assert found.records[0].output == f"{PART}soon{PART}ab{PART}f{{}}"


def test_a_field_that_the_server_refuses_is_left_out_and_said() -> None:
    behavior = Behavior(takes_ignore_eos=False)
    with streaming_server(behavior) as url:
        found = run_window(url, closed(1, 2), Window(requests=2))
    assert found.errors == 0
    assert "ignore_eos" not in behavior.bodies[-1]
    assert found.details["notes"] == (
        "the server takes no ignore_eos: answers may end before max_tokens",
    )


def test_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    behavior = Behavior()
    request = PlannedRequest(0, "caf\u00e9", 5, sampling={"temperature": 0.7, "top_p": 0.9})
    workload = Workload("w", "", (request,), "closed", 1)
    with streaming_server(behavior) as url:
        run_window(url + "/v1", workload, Window(requests=1))
    assert behavior.bodies[-1] == {
        "model": "m",
        "prompt": "caf\u00e9",
        "max_tokens": 5,
        "temperature": 0.7,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    assert behavior.headers[-1].startswith(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Authorization: Bearer secret\r\n" in behavior.headers[-1]


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Progress] = []
    with streaming_server(Behavior(ttft_s=0.3)) as url, LoadClient(url) as client:
        client.run_window(closed(1, 4), Window(requests=4), progress=told.append)
    assert told
    assert told[-1].sent >= told[-1].done > 0
    assert told[-1].failed == 0


def test_many_connections_need_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        with streaming_server() as url:
            run_window(url, closed(2, 2), Window(requests=2))
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 200
            run_window(url, replace(closed(2, 2), concurrency=180), Window(requests=2))
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(244, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_long_windows_decode_as_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.load.client._MOST_KEPT", 2000)
    with streaming_server() as url:
        found = run_window(url, closed(2, 12), Window(requests=12))
    assert [one.number for one in found.records] == list(range(12))
    assert found.errors == 0
    assert found.output_tokens == 60
    assert len({one.digest for one in found.records}) == 1


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ServerError) as caught:
        run_window("http://127.0.0.1:9", closed(1, 1), Window(requests=1))
    assert caught.value.message.startswith("http://127.0.0.1:9/v1/models: expected an answer, got:")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (Window(), "window: expected seconds or requests, got neither"),
        (Window(seconds=0.0), "window: expected seconds above 0, got 0"),
        (Window(requests=0), "window: expected at least 1 request, got 0"),
    ],
)
def test_windows_that_cannot_be(window: Window, message: str) -> None:
    with pytest.raises(InputError) as caught:
        run_window("http://127.0.0.1:9", closed(1, 1), window)
    assert caught.value.message == message


def test_a_key_that_would_break_the_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "a\r\nX: b")
    with pytest.raises(InputError, match="printable"):
        LoadClient("http://127.0.0.1:9")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
         "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with streaming_server(tls=context) as url:
        with pytest.raises(ServerError, match="certificate verify failed"):
            run_window(url, closed(1, 1), Window(requests=1))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        found = run_window(url, closed(2, 4), Window(requests=4))
    assert found.errors == 0
