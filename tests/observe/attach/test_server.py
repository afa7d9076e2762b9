"""A slice of a live server: a real HTTP server that speaks vLLM's and SGLang's endpoints."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.http_client import ServerError
from assay.observe.attach import server
from assay.observe.attach.server import Slice
from assay.observe.importers.detect import open_trace


def write_trace(path: Path, rank: int, kernels: int) -> None:
    """A PyTorch profiler trace as a server writes it."""
    events = [
        {
            "ph": "X", "cat": "kernel", "name": "gemm", "pid": 10 + rank, "tid": 7,
            "ts": 100.5 + number, "dur": 0.5,
            "args": {"device": rank, "stream": 7, "correlation": number + 1},
        }
        for number in range(kernels)
    ]  # fmt: skip
    document = {
        "schemaVersion": 1,
        "distributedInfo": {"rank": rank, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
    }
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


class Fake(ThreadingHTTPServer):
    """A server whose engine makes a step with every look at its metrics."""

    daemon_threads = True

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.kind = kind
        self.steps = 100
        self.is_stuck = False
        self.ranks = 1
        self.is_profiling = False
        self.log: list[tuple[str, Any]] = []
        self.first = 0
        self.limit: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def step(self) -> None:
        self.steps += not self.is_stuck
        if self.limit is not None and self.steps - self.first >= self.limit:
            self.limit = None
            self.write()

    def write(self) -> None:
        self.is_profiling = False
        for rank in range(self.ranks):
            write_trace(self.folder / f"rank{rank}.pt.trace.json.gz", rank, 3)

    def metrics(self) -> str | None:
        if self.kind == "plain":
            return None
        if self.kind == "sglang":
            return "sglang:num_running_reqs 1.0\n"
        self.step()
        return (
            "# TYPE vllm:iteration_tokens_total histogram\n"
            f'vllm:iteration_tokens_total_bucket{{le="1.0",engine="0"}} {self.steps}.0\n'
            f'vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {self.steps}.0\n'
        )


class Handler(BaseHTTPRequestHandler):
    server: Fake

    def log_message(self, *words: object) -> None:
        del words

    def answer(self, code: int, text: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self) -> None:
        text = self.server.metrics() if self.path == "/metrics" else None
        if self.path == "/server_info" and self.server.kind == "assay":
            text = json.dumps({"release": "1", "settings": {}, "synthetic": True})
        self.answer(404 if text is None else 200, text or "")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        fake = self.server
        if self.path not in ("/start_profile", "/stop_profile") or fake.kind == "no profiler":
            self.answer(404)
            return
        fake.log.append((self.path, body))
        if self.path == "/start_profile":
            if fake.is_profiling:
                self.answer(400, "Profiling is already in progress")
                return
            fake.is_profiling, fake.first = True, fake.steps
            if fake.kind == "sglang" and "num_steps" in body:
                # SGLang stops by itself.
                fake.write()
        else:
            fake.write()
            if fake.kind == "assay":
                open_trace(fake.folder / "rank0.pt.trace.json.gz").save(fake.folder / "own")
                self.answer(200, json.dumps({"trace": str(fake.folder / "own")}))
                return
        self.answer(200)


@pytest.fixture
def fake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fake]:
    made = Fake(tmp_path, getattr(request, "param", "vllm"))
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_vllm_is_recorded_by_its_own_count_of_steps(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "older.json").write_text("{}")
    recorded = server.record(fake.url, Slice(delay_steps=10, steps=5), tmp_path, 20)
    assert [path for path, _ in fake.log] == ["/start_profile", "/stop_profile"]
    assert fake.first >= 110
    assert recorded.server == "vllm"
    assert recorded.steps is not None
    assert recorded.steps >= 5
    assert recorded.files == [str(tmp_path / "rank0.pt.trace.json.gz")]
    assert recorded.trace is not None
    events = recorded.trace.events
    assert events["start_ns"].to_list() == [1_700_000_000_000_100_500 + 1000 * n for n in range(3)]
    assert recorded.notes == []


def test_ranks_are_one_trace(fake: Fake, tmp_path: Path) -> None:
    fake.ranks = 2
    recorded = server.record(fake.url, Slice(steps=2), tmp_path, 20)
    assert recorded.trace is not None
    assert len(recorded.trace.events) == 6
    assert sorted(recorded.trace.events["rank"].to_list()) == [0, 0, 0, 1, 1, 1]
    assert len(recorded.files) == 2


@pytest.mark.parametrize("fake", ["sglang"], indirect=True)
def test_sglang_takes_the_steps_itself(fake: Fake, tmp_path: Path) -> None:
    recorded = server.record(fake.url, Slice(steps=4), tmp_path, 20)
    assert fake.log == [("/start_profile", {"num_steps": 4, "output_dir": str(tmp_path)})]
    assert recorded.trace is not None
    assert (recorded.server, recorded.steps, len(recorded.trace.events)) == ("sglang", 4, 3)
    with pytest.raises(InputError, match="SGLang does not tell its steps"):
        server.record(fake.url, Slice(delay_steps=1, steps=4), tmp_path, 20)


@pytest.mark.parametrize("fake", ["plain"], indirect=True)
def test_a_server_that_counts_no_steps_is_recorded_by_time(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not count steps"):
        server.record(fake.url, Slice(steps=4), tmp_path, 20)
    assert fake.log == []
    recorded = server.record(fake.url, Slice(duration_s=0.05), None, 20)
    assert [path for path, _ in fake.log] == ["/start_profile", "/stop_profile"]
    assert (recorded.server, recorded.steps, recorded.trace) == ("unknown", None, None)
    assert "assay trace import" in recorded.notes[0]


@pytest.mark.parametrize("fake", ["no profiler"], indirect=True)
def test_a_server_without_a_profiler_is_named_with_its_flag(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(
        ServerError, match="/start_profile: expected the server's profiler"
    ) as error:
        server.record(fake.url, Slice(steps=4), tmp_path, 20)
    assert error.value.hint is not None
    assert "--profiler-config" in error.value.hint


def test_a_server_that_makes_no_steps_is_not_left_profiling(fake: Fake, tmp_path: Path) -> None:
    fake.is_stuck = True
    with pytest.raises(ServerError, match="expected 4 steps in time, got 0"):
        server.record(fake.url, Slice(steps=4), tmp_path, 0.3)
    assert [path for path, _ in fake.log] == ["/start_profile", "/stop_profile"]
    assert not fake.is_profiling


def test_a_server_that_profiles_already_says_so(fake: Fake, tmp_path: Path) -> None:
    fake.is_profiling = True
    with pytest.raises(ServerError, match="got 400: Profiling is already in progress"):
        server.record(fake.url, Slice(steps=4), tmp_path, 20)


def test_no_server() -> None:
    with pytest.raises(ServerError, match="expected an answer, got: "):
        server.record("http://127.0.0.1:1", Slice(steps=4), None, 1)


@pytest.mark.parametrize("fake", ["assay"], indirect=True)
def test_assays_own_server_says_where_its_trace_is(fake: Fake) -> None:
    """Its metrics have vLLM's names too; its trace is a folder of Assay's format."""
    recorded = server.record(fake.url, Slice(steps=3), None, 20)
    assert (recorded.server, recorded.notes) == ("assay", [])
    assert recorded.trace is not None
    assert len(recorded.trace.events) == 3
    assert recorded.files == [str(fake.folder / "own")]
