"""`assay serve` as a server to tune: a real process with the synthetic model."""

from __future__ import annotations

import socket
import sys

import pytest

import assay
from assay.engine import SamplingParams
from assay.improve.engines.http import HttpEngine
from assay.load.workloads.workload import PlannedRequest, Window, Workload
from assay.observe.importers.detect import open_trace

WORKLOAD = Workload(
    "test",
    "",
    tuple(PlannedRequest(n, f"words of request {n}", 8) for n in range(4)),
    concurrency=2,
)
PROMPT = "gravity is the force that"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = (
        f"{sys.executable} -m assay serve synthetic --port {port} --no-access-log {{settings}}"
    )
    found = HttpEngine(
        f"http://127.0.0.1:{port}/v1", command, folder=tmp_path_factory.mktemp("server")
    )
    yield found
    found.close()


def test_the_server_states_every_setting(engine):
    found = engine.describe()
    assert (found.engine, found.release, found.device) == ("assay", assay.__version__, "cpu")
    assert found.synthetic
    assert found.degradations == ()
    assert engine.settings() == {name: knob.default for name, knob in engine.knobs().items()}


def test_the_same_requests_find_an_empty_prefix_cache_without_a_restart(engine):
    first = engine.server.record
    for _ in range(2):
        found = engine.measure(WORKLOAD, Window(requests=4))
        assert (found.errors, found.output_tokens) == (0, 32)
    assert engine.server.record == first


def test_answers_come_as_tokens(engine):
    found = engine.answers(WORKLOAD, 2)
    prompts = [one.prompt for one in WORKLOAD.requests[:2]]
    with assay.Engine.load("synthetic") as own:
        assert [prompt for prompt, _ in found] == [
            tuple(own.files.tokenizer.encode(one)) for one in prompts
        ]
        for prompt, (_, output) in zip(prompts, found, strict=True):
            [answer] = engine.probe([prompt], 8)
            assert output == tuple(own.files.tokenizer.encode("".join(answer.texts)))


def test_a_change_a_trace_and_answers_that_equal_the_engines_own(engine, tmp_path):
    undo = engine.configure({"max_batch": 2, "deterministic": True, "policy": "fcfs"})
    assert (engine.settings()["max_batch"], engine.settings()["deterministic"]) == (2, True)
    folder = engine.capture(WORKLOAD, Window(requests=2), tmp_path / "trace")
    assert folder == tmp_path / "trace"
    trace = open_trace(folder)
    assert trace.steps.height >= 8
    [answer] = engine.probe([PROMPT], 6)
    with assay.Engine.load("synthetic", max_batch=2, deterministic=True) as own:
        params = SamplingParams(max_tokens=6, temperature=0.0, ignore_eos=True, logprobs=2)
        [said] = own.generate([PROMPT], params)
    assert answer.logprobs == pytest.approx([one.logprob for one in said.logprobs], abs=1e-6)
    margins = [one.top_logprobs[0][1] - one.top_logprobs[1][1] for one in said.logprobs]
    assert answer.margins == pytest.approx(margins, abs=1e-6)
    undo()
    assert engine.settings()["max_batch"] == 16
