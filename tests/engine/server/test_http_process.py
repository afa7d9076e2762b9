"""HTTP in a process of its own: both processes end together, however one of them ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fake_engine import FakeEngine, expected_text
from running_server import Running, app_apart, running

from assay.engine.core.worker import Failure, WorkerState
from assay.engine.requests.outputs import Chunk, StepOutput
from assay.engine.server import LoadedEngine, ModelFacts, listen
from assay.engine.server.engine_process import HttpProcess, HttpProcessError
from assay.engine.server.http_settings import HttpSettings
from assay.engine.server.messages import Outputs, Unpacking, outputs_of, pack
from assay.errors import InputError
from assay.second_process import SecondProcess


@dataclass
class Server:
    """`assay serve` with two processes."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def http_pid(self) -> int:
        """The process of HTTP, its only child."""
        [pid] = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        return int(pid)

    def ended(self) -> tuple[int, str]:
        """The exit status and stderr."""
        _, text = self.process.communicate(timeout=20)
        return self.process.returncode, text


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    words = ["serve", "synthetic", "--device", "cpu", "--port", "0", "--json", "--http-process"]
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *words, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "}\n")
        url = json.loads("".join(lines) + "}")["url"]
        yield Server(process, url)
    finally:
        process.kill()
        process.communicate()


def complete(url: str, **fields: object) -> httpx.Response:
    body = {"model": "synthetic", "prompt": "Once", "max_tokens": 4, "temperature": 0, **fields}
    return httpx.post(f"{url}/v1/completions", json=body, trust_env=False, timeout=20)


def wait_until_free(port: int) -> None:
    deadline = time.monotonic() + 5
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        assert time.monotonic() < deadline, "something still listens"
        time.sleep(0.02)


def test_serves_and_ends_with_the_terminal() -> None:
    with serving("--enable-sleep-mode") as server:
        answer = complete(server.url)
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 4
        constraint = {"response_format": {"type": "json_object"}, "max_tokens": 40}
        assert complete(server.url, **constraint).status_code == 200
        assert httpx.get(f"{server.url}/server_info", trust_env=False).json()["device"] == "cpu"
        with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as http:
            assert http.post("/sleep").json() == {"is_sleeping": True}
            assert complete(server.url).status_code == 503
            assert http.post("/wake_up").json() == {"is_sleeping": False}
            assert complete(server.url).json()["choices"] == answer.json()["choices"]
        # A terminal sends ctrl-c to both processes.
        os.killpg(server.process.pid, signal.SIGINT)
        status, log = server.ended()
        assert status == 0
        assert "Traceback" not in log
        wait_until_free(server.port)


def test_the_engines_end_with_http() -> None:
    with serving() as server:
        assert complete(server.url).status_code == 200
        os.kill(server.http_pid, signal.SIGKILL)
        status, log = server.ended()
        assert status == 1
        assert "error: the process of HTTP: expected it to serve until" in log
        assert "got its end with -9" in log
        assert "Traceback" not in log
        wait_until_free(server.port)


def test_http_ends_with_the_engines() -> None:
    with serving() as server:
        body = {"model": "synthetic", "prompt": "Once", "max_tokens": 900, "stream": True}
        url = f"{server.url}/v1/completions"
        with httpx.stream("POST", url, json=body, trust_env=False, timeout=20) as answer:
            lines = (line for line in answer.iter_lines() if line)
            next(lines)
            http_pid = server.http_pid
            server.process.kill()
            assert "the engine's process has ended" in list(lines)[-1]
        wait_until_free(server.port)
        deadline = time.monotonic() + 5
        while Path(f"/proc/{http_pid}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "the engine's process has ended: so does HTTP" in server.ended()[1]


def test_a_process_that_does_not_start_is_an_error() -> None:
    engine = FakeEngine()
    with SecondProcess("assay.no_such_module") as second, listen("127.0.0.1", 0) as listener:
        second.wait()
        with pytest.raises(HttpProcessError, match="got its end with 1"):
            HttpProcess(second, listener, HttpSettings([])).serve(
                [LoadedEngine("fake", engine, ModelFacts(0, 0))]
            )


def test_a_model_that_does_not_load_leaves_nothing_behind(tmp_path: Path) -> None:
    words = ["serve", str(tmp_path / "none"), "--port", "0", "--http-process"]
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


@pytest.fixture
def apart() -> Iterator[Running]:
    with running(FakeEngine(step_seconds=0.002), make_app=app_apart) as server:
        yield server


def test_engine_over_a_socket_answers_as_one_beside_it(apart: Running) -> None:
    with httpx.Client(base_url=apart.url, trust_env=False, timeout=10) as http:
        body = {"model": "fake", "prompt": "abc", "max_tokens": 20, "n": 3}
        answer = http.post("/v1/completions", json=body).json()
        texts = [choice["text"] for choice in answer["choices"]]
        assert texts == [expected_text("abc", 20)] * 3
        assert answer["usage"]["completion_tokens"] == 60
        scored = http.post("/v1/completions", json={**body, "n": 1, "logprobs": 2}).json()
        assert scored["choices"][0]["logprobs"]["token_logprobs"] == [-0.25] * 20
        refused = http.post("/v1/completions", json={**body, "prompt": "refused"})
        assert refused.status_code == 400
        assert "this prompt is refused; try another" in refused.json()["error"]["message"]
        embedded = http.post("/v1/embeddings", json={"model": "fake", "input": "ab"}).json()
        assert embedded["data"][0]["embedding"]
        assert 'generation_tokens_total{model_name="fake"} 80.0' in http.get("/metrics").text
        assert http.get("/server_info").json()["settings"]["max_batch"] == 64
    assert apart.wait_idle()


def test_disconnected_client_aborts_over_the_socket(apart: Running) -> None:
    body = {"model": "fake", "prompt": "abc", "max_tokens": 400, "stream": True}
    url = f"{apart.url}/v1/completions"
    with httpx.stream("POST", url, json=body, trust_env=False) as answer:
        next(answer.iter_lines())
    assert apart.wait_idle()
    assert apart.engine.aborted == 1


def test_failed_engine_refuses_over_the_socket(apart: Running) -> None:
    apart.engine.fails_at_step = 3
    body = {"model": "fake", "prompt": "abc", "max_tokens": 40}
    failed = httpx.post(f"{apart.url}/v1/completions", json=body, trust_env=False)
    assert failed.status_code == 503
    assert "the engine failed: RuntimeError: the test said so" in failed.text
    assert httpx.get(f"{apart.url}/health", trust_env=False).status_code == 503


def test_messages_arrive_whole_however_they_are_cut() -> None:
    sent = [("a", 1), list(range(2000)), StepOutput("x", (Chunk("t", 1),)), None]
    data = b"".join(map(pack, sent))
    for size in (1, 7, 4096, len(data)):
        unpacking, got = Unpacking(), []
        for start in range(0, len(data), size):
            got += unpacking.push(data[start : start + size])
        assert got == sent
    # A reader that takes one message leaves the others.
    unpacking = Unpacking()
    first = next(iter(unpacking.push(data)))
    assert [first, *unpacking.push(b"")] == sent


def test_outputs_of_a_step_are_columns() -> None:
    plain = [StepOutput(f"r{number}", (Chunk(f"t{number}", number),)) for number in range(3)]
    others = [
        StepOutput("end", (Chunk("e", 7, finish_reason="length"),)),
        StepOutput("scored", (Chunk("s", 8, logprob=-1.0),)),
        StepOutput("two", (Chunk("a", 1), Chunk("b", 2))),
        Failure("failed", InputError("no", "hint")),
    ]
    got = outputs_of(2, [plain[0], others[0], plain[1], *others[1:], plain[2]], WorkerState())
    assert got == Outputs(2, ["r0", "r1", "r2"], ["t0", "t1", "t2"], others, WorkerState())
    [copy] = Unpacking().push(pack(got))
    assert copy[:3] == got[:3]
    assert copy.others[:3] == others[:3]
    assert (copy.others[3].error.message, copy.others[3].error.hint) == ("no", "hint")


@pytest.mark.slow
def test_an_idle_connection_outlives_what_clients_keep() -> None:
    """5 s are usual on both sides, where a request may meet a connection that is being closed."""
    with serving() as server, socket.create_connection(("127.0.0.1", server.port), 20) as link:
        for pause in (6.5, 0.0):
            link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                received = link.recv(4096)
                assert received
                answer += received
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(pause)
