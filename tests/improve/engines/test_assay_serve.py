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
from assay.openai_api.exchange import exchange_json

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


def test_a_conversation_is_asked_as_a_chat_and_the_server_led_along_its_answer(engine):
    said = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"})
    chats = (
        PlannedRequest(0, "user: Why?", 8, messages=said),
        PlannedRequest(1, "user: Why?", 8, messages=said, sampling={"temperature": 0.5, "seed": 3}),
    )
    found = engine.measure(Workload("chats", "", chats, concurrency=1), Window(requests=2))
    assert (found.errors, found.details["interface"]) == (0, "/v1/chat/completions")
    # The chat template's marks are tokens of the prompt.
    assert found.records[0].prompt_tokens > 3
    given = list(zip(chats, [record.output for record in found.records], strict=True))
    # The synthetic model says bytes that are no characters: behind those nobody can be led.
    for judged in engine.follow(given, 0.1):
        assert judged is None or judged.gaps == pytest.approx((0.0,) * len(judged.gaps), abs=1e-5)
    body = {"messages": said, "model": "synthetic", "max_tokens": 1, "temperature": 0.0}
    asked = {"logprobs": True, "top_logprobs": 2, "ignore_eos": True}
    answer = exchange_json(engine.address, "/v1/chat/completions", body | asked)
    [first] = answer["choices"][0]["logprobs"]["content"]
    # One token behind the conversation is what the chat itself says of it.
    [position] = engine._prober.positions("synthetic", engine._served.rendered(chats[0]), 1)
    assert position.logprob == pytest.approx(first["logprob"], abs=1e-5)


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
