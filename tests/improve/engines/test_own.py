"""The own engine behind the protocol: windows, read-back, probes, traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.engine import Engine as AssayEngine, SamplingParams
from assay.errors import InputError
from assay.improve.engines.own import OwnEngine
from assay.improve.engines.own_window import planned
from assay.improve.engines.protocol import Engine
from assay.load.workloads.workload import PlannedRequest, Window, Workload

REQUESTS = tuple(
    PlannedRequest(
        number, f"{number}: a boat on the water", 4 + number % 3, arrival_s=0.02 * number
    )
    for number in range(6)
)
CLOSED = Workload("six", "six short requests", REQUESTS, concurrency=3)
OPEN = dataclasses.replace(CLOSED, arrival="poisson", concurrency=None, rate=50.0)


@pytest.fixture
def own() -> Iterator[OwnEngine]:
    """The synthetic model, plainly configured."""
    with AssayEngine.load("synthetic", threads=1, graph_buckets=0, max_batch=2) as engine:
        yield OwnEngine(engine, source="synthetic")


def test_it_is_an_engine_of_the_protocol(own: OwnEngine) -> None:
    assert isinstance(own, Engine)
    found = own.describe()
    assert (found.engine, found.device, found.synthetic) == ("assay", "cpu", True)
    assert {"cpu", "speculation", "kv-bf16"} <= found.capabilities
    assert found.hardware["fingerprint"]


def test_a_closed_window_asks_for_exactly_its_requests(own: OwnEngine) -> None:
    found = own.measure(CLOSED, Window(requests=8, offset=2))
    assert [one.number for one in found.records] == list(range(2, 10))
    # The seventh request of six is the first again.
    assert [one.output_tokens for one in found.records] == [
        REQUESTS[number % 6].max_tokens for number in range(2, 10)
    ]
    assert found.records[0].digest == found.records[6].digest
    assert found.figures["total_output_tokens"] == found.output_tokens
    assert found.figures["output_throughput"] == pytest.approx(found.output_tokens / found.seconds)
    assert found.errors == 0


CHAT = PlannedRequest(
    0,
    "user: Why?",
    24,
    fields={
        "response_format": {"type": "json_object"},
        "ignore_eos": False,
        "reasoning_effort": "low",
    },
    messages=({"role": "user", "content": [{"type": "text", "text": "Why?"}]},),
)


def test_a_conversation_is_rendered_by_the_models_template_and_its_answer_formed(
    own: OwnEngine,
) -> None:
    template = own.engine.files.chat_template
    assert template is not None
    rendered = template.render([{"role": "user", "content": "Why?"}])
    chats = Workload("chats", "", (CHAT,), concurrency=1)
    [record] = own.measure(chats, Window(requests=1)).records
    assert record.error is None
    assert record.prompt_tokens == len(
        own.engine.files.tokenizer.encode(rendered, add_special=False)
    )
    assert own.engine.files.tokenizer.decode(record.output).lstrip().startswith("{")
    # Led along behind a part of it, a grammar would begin anew.
    assert own.follow([(CHAT, record.output)], 0.1) == [None]
    free = dataclasses.replace(CHAT, fields={})
    [followed] = own.follow([(free, record.output)], 0.1)
    assert followed is not None
    assert len(followed.gaps) == len(record.output)
    assert own.describe().degradations[-1] == (
        "not applied in this process: reasoning_effort; assay serve does"
    )


def test_records_are_consistent_with_the_engine_alone(own: OwnEngine) -> None:
    found = own.measure(CLOSED, Window(requests=3))
    for record, request in zip(found.records, REQUESTS, strict=False):
        alone = own.engine.generate(
            request.prompt,
            SamplingParams(max_tokens=request.max_tokens, temperature=0.0, ignore_eos=True),
        )[0]
        assert record.prompt_tokens == alone.prompt_tokens
        assert record.output_tokens == len(alone.token_ids)
        assert record.first_token_s is not None
        assert record.first_token_s + sum(record.itls_s) == pytest.approx(record.end_s)
        assert len(record.itls_s) == record.output_tokens - 1


def test_windows_do_not_find_each_other_in_the_prefix_cache(own: OwnEngine) -> None:
    first = own.measure(CLOSED, Window(requests=3))
    second = own.measure(CLOSED, Window(requests=3))
    hits = [one.details["counters"].get("hit_tokens", 0) for one in (first, second)]
    assert hits[0] == hits[1]


def test_speculation_counts_tokens_not_steps(own: OwnEngine) -> None:
    before = own.measure(CLOSED, Window(requests=6))
    own.configure({"speculation_depth": 4})
    after = own.measure(CLOSED, Window(requests=6))
    assert after.settings["speculation_depth"] == 4
    assert after.output_tokens == before.output_tokens
    assert [one.digest for one in after.records] == [one.digest for one in before.records]


def test_an_open_window_sends_by_the_plan(own: OwnEngine) -> None:
    found = own.measure(OPEN, Window(seconds=0.1))
    assert len(found.records) == 5
    assert [one.scheduled_s for one in found.records] == pytest.approx(
        [0.0, 0.02, 0.04, 0.06, 0.08]
    )
    assert all(
        one.first_token_s is not None and one.first_token_s > one.sent_s for one in found.records
    )


def test_a_plan_goes_round_and_its_arrivals_go_on() -> None:
    plan = planned(OPEN, offset=4)
    arrivals = [next(plan)[1] for _ in range(5)]
    assert arrivals == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08])


def test_settings_are_read_back_and_undone(own: OwnEngine) -> None:
    before = dict(own.settings())
    undo = own.configure({"max_batch": 4, "kv_format": "f32"})
    assert own.settings() == {**before, "max_batch": 4, "kv_format": "f32"}
    undo()
    assert own.settings() == before
    with pytest.raises(InputError, match="max_batch"):
        own.configure({"max_batch": 0})


def test_threads_read_back_what_the_kernels_use(own: OwnEngine) -> None:
    assert own.settings()["threads"] == 1
    with AssayEngine.load("synthetic", threads=2):
        # Another engine changed the limit of the process: the setting is not in force.
        assert own.settings()["threads"] == 2
    own.configure({"threads": 1, "max_batch": 2})


def test_probes_answer_greedily_with_margins(own: OwnEngine) -> None:
    prompts = ["Once upon", "Gravity is"]
    answers = own.probe(prompts, 5)
    alone = own.engine.generate(
        prompts, SamplingParams(max_tokens=5, temperature=0.0, ignore_eos=True)
    )
    assert [one.token_ids for one in answers] == [one.token_ids for one in alone]
    for one in answers:
        assert len(one.logprobs) == len(one.margins) == len(one.top_logprobs) == 5
        assert all(margin >= 0 for margin in one.margins)
        best = [max(top.values()) for top in one.top_logprobs]
        assert list(one.logprobs) == pytest.approx(best, abs=1e-5)


def test_a_capture_is_a_trace_of_the_window(own: OwnEngine, tmp_path: Path) -> None:
    folder = own.capture(CLOSED, Window(requests=3), tmp_path / "trace")
    assert folder is not None
    files = {path.name for path in folder.iterdir()}
    assert files == {"header.json", "events.shard", "steps.json"}


def test_the_launch_command_names_what_differs_from_the_defaults(own: OwnEngine) -> None:
    settings = {**own.settings(), "deterministic": True}
    assert own.launch_command(settings) == (
        "assay serve synthetic --knob max_batch=2 --knob graph_buckets=0 --knob threads=1 "
        "--knob deterministic=true"
    )


def test_a_window_without_a_limit_is_refused(own: OwnEngine) -> None:
    with pytest.raises(InputError, match="expected seconds or requests"):
        own.measure(CLOSED, Window())
