"""HTTP errors, limits, disconnects and timeouts."""

import contextlib
import gc
import json
import re
import socket
import time

import httpx
import pytest
from fake_engine import FakeEngine, fake_model
from running_server import Running, Serving

from assay.engine.server import Limits, create_app, http_server, listen, serve
from assay.engine.server.guards import TimeoutProtocol
from assay.errors import InputError

PROMPT = {"model": "fake", "prompt": "abc"}


def error_of(answer: httpx.Response) -> dict[str, object]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, object] = body["error"]
    return error


def request_bytes(body: object, path: str = "/v1/completions") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def test_health(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/completions", 400),
    ],
)
def test_every_error_has_one_shape(http: httpx.Client, method: str, path: str, status: int) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    assert error_of(answer)["message"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", "/v1/models"),
        ("/docs", "/openapi.json"),
        ("/props", "/server_info"),
        ("/x", "Not Found"),
    ],
)
def test_paths_of_other_servers_name_what_serves_here(
    http: httpx.Client, path: str, place: str
) -> None:
    answer = http.get(path)
    assert answer.status_code == 404
    assert place in str(error_of(answer)["message"])


def test_a_body_without_a_type_of_its_own_is_json_unless_a_page_sent_it(http: httpx.Client) -> None:
    body = json.dumps({**PROMPT, "max_tokens": 1}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert http.post("/v1/completions", content=body, headers=form).status_code == 200
    for headers in ({"Content-Type": "text/plain"}, {**form, "Origin": "https://example.com"}):
        answer = http.post("/v1/completions", content=body, headers=headers)
        assert answer.status_code == 415
        message = f"Content-Type: expected application/json, got {headers['Content-Type']}"
        assert error_of(answer)["message"] == message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[1]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model": "fake", "prompt": "\\ud800"}',
        b'{"model": "fake", "prompt": "a", "\\ud800": 1}',
        b'{"model": "fake", "prompt": "a", "temperature": NaN}',
        b'{"model": "fake", "prompt": "a", "temperature": 1e999}',
        b'{"model": "fake", "prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}",
        b'{"model": "fake", "prompt": ""}',
        b'{"model": "fake", "prompt": []}',
        b'{"model": "fake", "prompt": [[]]}',
        b'{"model": "fake", "prompt": [-1]}',
        b'{"model": "fake", "prompt": [true]}',
        b'{"model": "fake", "prompt": "a", "stop": ""}',
        b'{"model": "fake", "prompt": "a", "n": 0}',
        b'{"model": "fake", "prompt": "a", "logit_bias": {"5": 101}}',
        b'{"model": "fake", "prompt": "a", "logit_bias": {"x": 1}}',
        b'{"model": "fake", "prompt": "a", "logit_bias": {"257": 1}}',
        b'{"model": "fake", "prompt": "a", "response_format": {"type": "xml"}}',
        b'{"model": "fake", "prompt": "a", "structured_outputs": {}}',
        b'{"model": "fake", "prompt": "a", "guided_regex": "a", "guided_choice": ["a"]}',
    ],
)
def test_malformed_bodies_are_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post(
        "/v1/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert error_of(answer)["type"] == "invalid_request_error"


def test_unsupported_parameter_is_named(http: httpx.Client) -> None:
    answer = http.post("/v1/completions", json={**PROMPT, "mm_processor_kwargs": 2})
    error = error_of(answer)
    assert error["param"] == "mm_processor_kwargs"
    assert error["code"] == "unsupported_parameter"
    assert error["message"] == "mm_processor_kwargs: this server does not support it"


def test_chat_without_a_template_is_refused(serving: Serving) -> None:
    served = serving(with_template=False)
    body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}
    answer = httpx.post(f"{served.url}/v1/chat/completions", json=body, trust_env=False)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "no_chat_template"


@pytest.mark.parametrize("declared", [True, False])
def test_too_large_body_is_refused(serving: Serving, declared: bool) -> None:
    served = serving(limits=Limits(body_bytes=1000))
    body = b"x" * 2000
    content = body if declared else iter([body[:900], body[900:]])
    answer = httpx.post(f"{served.url}/v1/completions", content=content, trust_env=False)
    assert answer.status_code == 413
    assert error_of(answer)["message"] == "the request's body is larger than 1,000 bytes"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        ("Basic sesame", 401),
        ("Bearer sesame\xe9", 401),
        ("Bearer sesame", 200),
        ("bearer sesame", 200),
    ],
)
def test_api_key(key_served: Running, header: str | None, status: int) -> None:
    headers = {"Authorization": header.encode("latin-1")} if header else {}
    answer = httpx.get(f"{key_served.url}/v1/models", headers=headers, trust_env=False)
    assert answer.status_code == status
    assert httpx.get(f"{key_served.url}/health", trust_env=False).status_code == 200


@pytest.fixture
def key_served(serving: Serving) -> Running:
    return serving(api_key="sesame")


def test_metrics_have_vllm_and_opentelemetry_names(serving: Serving) -> None:
    served = serving()
    body = {**PROMPT, "max_tokens": 5}
    httpx.post(f"{served.url}/v1/completions", json=body, trust_env=False)
    text = httpx.get(f"{served.url}/metrics", trust_env=False).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    model = '{model_name="fake"}'
    otel = (
        '{gen_ai_operation_name="text_completion",gen_ai_provider_name="assay",'
        'gen_ai_request_model="fake",gen_ai_response_model="fake"'
    )
    expected = {
        f"vllm:prompt_tokens_total{model}": 3,
        f"vllm:generation_tokens_total{model}": 5,
        'vllm:request_success_total{finished_reason="length",model_name="fake"}': 1,
        f"vllm:time_to_first_token_seconds_count{model}": 1,
        f"vllm:inter_token_latency_seconds_count{model}": 4,
        f"vllm:e2e_request_latency_seconds_count{model}": 1,
        f"vllm:request_queue_time_seconds_count{model}": 1,
        f"vllm:num_requests_running{model}": 0,
        f"vllm:num_requests_waiting{model}": 0,
        f"vllm:kv_cache_usage_perc{model}": 0,
        f"vllm:num_preemptions_total{model}": 0,
        f"gen_ai_server_time_to_first_token_seconds_count{otel}}}": 1,
        f"gen_ai_server_time_per_output_token_seconds_count{otel}}}": 1,
    }
    assert {name: float(lines.get(name, -1)) for name in expected} == expected
    assert sum("gen_ai_server_request_duration_seconds_count" in name for name in lines) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_disconnect_frees_blocks(serving: Serving, stream: bool) -> None:
    engine = FakeEngine(step_seconds=0.01)
    served = serving(engine)
    body = {**PROMPT, "max_tokens": 500, "stream": stream, "n": 2}
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(request_bytes(body))
        wait_until(lambda: engine.statistics()["running"] == 2)
    assert served.wait_idle()
    assert engine.aborted == 2


def test_disconnect_removes_a_waiting_request(serving: Serving) -> None:
    engine = FakeEngine(step_seconds=0.01, batch=1)
    served = serving(engine)
    body = {**PROMPT, "max_tokens": 400}
    with socket.create_connection(("127.0.0.1", served.port)) as first:
        first.sendall(request_bytes(body))
        wait_until(lambda: engine.statistics()["running"] == 1)
        with socket.create_connection(("127.0.0.1", served.port)) as second:
            second.sendall(request_bytes(body))
            wait_until(lambda: engine.statistics()["waiting"] == 1)
        wait_until(lambda: engine.statistics()["waiting"] == 0)
        assert engine.statistics()["running"] == 1
    assert served.wait_idle()


class ShortTimeouts(TimeoutProtocol):
    request_timeout_seconds = 1.0  # type: ignore[misc]
    """Long enough for a client of a busy machine to send its request."""
    read_timeout_seconds = 0.2  # type: ignore[misc]


@pytest.mark.parametrize(
    "request_start",
    [
        b"",
        b"POST /v1/comp",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_incomplete_request_times_out(serving: Serving, request_start: bytes) -> None:
    served = serving(protocol=ShortTimeouts)
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        connection.sendall(request_start)
        assert_closed(connection)


def test_incomplete_second_request_times_out(serving: Serving) -> None:
    served = serving(protocol=ShortTimeouts)
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            answer += connection.recv(4096)
        connection.sendall(b"GET /hea")
        assert_closed(connection)


def test_slow_engine_does_not_time_out(serving: Serving) -> None:
    served = serving(FakeEngine(step_seconds=0.3), protocol=ShortTimeouts)
    body = {**PROMPT, "max_tokens": 6}
    answer = httpx.post(f"{served.url}/v1/completions", json=body, trust_env=False)
    assert answer.json()["choices"][0]["text"] == "ABCABC"


def test_client_that_stops_reading_times_out(serving: Serving) -> None:
    served = serving(protocol=ShortTimeouts)
    body = {**PROMPT, "max_tokens": 400, "stream": True, "n": 4, "logprobs": 20}
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.port))
        connection.sendall(request_bytes(body))
        connection.settimeout(10)
        assert connection.recv(10)
        # Ten times as long as the server waits for a reader.
        time.sleep(2.0)
        assert b"[DONE]" not in read_all(connection)
    assert served.wait_idle()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 1000,
        b"GET / HTTQ/1.1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_malformed_http_is_refused(served: Running, http: httpx.Client, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        connection.sendall(garbage)
        assert b"400 Bad Request" in connection.recv(4096)
    assert http.get("/health").status_code == 200


def wait_until(condition, seconds: float = 5.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.005)


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def assert_closed(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        assert read_all(connection) == b""


def test_health_answers_head(http: httpx.Client) -> None:
    answer = http.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_more_choices_than_the_server_ever_accepts(serving: Serving) -> None:
    served = serving(limits=Limits(requests=4))
    for body, param in (
        ({**PROMPT, "n": 5}, "n"),
        ({**PROMPT, "prompt": ["a", "b", "c"], "n": 2}, "n"),
        ({**PROMPT, "prompt": ["a"] * 5}, "prompt"),
    ):
        answer = httpx.post(f"{served.url}/v1/completions", json=body, trust_env=False)
        assert answer.status_code == 400
        assert "retry-after" not in answer.headers
        error = answer.json()["error"]
        assert (error["param"], error["code"]) == (param, "too_many_choices")
        assert "at most 4 at once" in error["message"]
    body = {**PROMPT, "n": 4, "max_tokens": 2}
    assert httpx.post(f"{served.url}/v1/completions", json=body, trust_env=False).status_code == 200


def counters(served: Running) -> dict[str, float]:
    text = httpx.get(f"{served.url}/metrics", trust_env=False).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name.partition("{")[0]: float(value) for name, value in lines.items()}


def test_token_totals_equal_the_usage(serving: Serving) -> None:
    served = serving()
    prompt_tokens = completion_tokens = prompts = 0
    for body in (
        {**PROMPT, "max_tokens": 3},
        {**PROMPT, "max_tokens": 4, "n": 3},
        {**PROMPT, "prompt": ["ab", "cdefg"], "max_tokens": 2, "n": 2},
    ):
        answer = httpx.post(f"{served.url}/v1/completions", json=body, trust_env=False)
        usage = answer.json()["usage"]
        prompt_tokens += usage["prompt_tokens"]
        completion_tokens += usage["completion_tokens"]
        prompts += len(body["prompt"]) if isinstance(body["prompt"], list) else 1
    found = counters(served)
    assert found["vllm:prompt_tokens_total"] == prompt_tokens == 3 + 3 + 7
    assert found["vllm:generation_tokens_total"] == completion_tokens == 3 + 12 + 8
    assert found["vllm:request_prompt_tokens_count"] == prompts


def test_token_totals_include_aborted_requests(serving: Serving) -> None:
    served = serving(FakeEngine(step_seconds=0.01))
    body = {**PROMPT, "max_tokens": 500, "stream": True}
    with httpx.stream("POST", f"{served.url}/v1/completions", json=body, trust_env=False) as answer:
        next(answer.iter_lines())
    assert served.wait_idle()
    found = counters(served)
    assert found["vllm:prompt_tokens_total"] == 3
    assert 1 <= found["vllm:generation_tokens_total"] < 500


def test_access_log(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="assay.access")
    served = serving(FakeEngine(step_seconds=0.01), api_key="sesame")
    key = {"Authorization": "Bearer sesame"}
    body = {**PROMPT, "prompt": "secret", "max_tokens": 2}
    url = f"{served.url}/v1/completions"
    httpx.post(f"{url}?token=secret", json=body, headers=key, trust_env=False)
    httpx.post(url, json=body, trust_env=False)
    httpx.get(f"{served.url}/no%0Asuch", trust_env=False)
    stream = {**body, "max_tokens": 500, "stream": True}
    with httpx.stream("POST", url, json=stream, headers=key, trust_env=False) as answer:
        next(answer.iter_lines())
    assert served.wait_idle()
    deadline = time.monotonic() + 5
    while len(caplog.records) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    lines = [re.sub(r"[0-9.]+ ms", "T ms", record.getMessage()) for record in caplog.records]
    assert lines == [
        '127.0.0.1 "POST /v1/completions" 200 T ms',
        '127.0.0.1 "POST /v1/completions" 401 T ms',
        '127.0.0.1 "GET /no%0Asuch" 404 T ms',
        '127.0.0.1 "POST /v1/completions" 499 T ms',
    ]


@pytest.mark.parametrize("key", ["", " ", "a\nb", "k ", "gr\u00fcn"])
def test_keys_that_no_client_can_send_are_refused(key: str) -> None:
    with pytest.raises(InputError, match="the API key"):
        create_app(FakeEngine(), fake_model(), api_key=key)


def test_what_was_loaded_is_not_collected_again_while_serving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(http_server.sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(
        http_server.DrainingServer, "run", lambda *_: frozen.append(gc.get_freeze_count())
    )
    with listen("127.0.0.1", 0) as listener:
        try:
            serve(create_app(FakeEngine(), fake_model()), listener)
        finally:
            gc.unfreeze()
    # FastAPI's own schemas are tens of thousands of objects.
    assert frozen[0] > 10_000
