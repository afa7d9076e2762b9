"""The built-in workloads: what each promises."""

import itertools
import math
import statistics

import pytest

from assay.engine import Engine, SamplingParams
from assay.errors import AssayError
from assay.load.workloads.builtin import BUILT_IN, GPU_SCALE, NAMES, PREFIXES, SESSIONS, workload
from assay.load.workloads.lengths import Uniform
from assay.load.workloads.shape import shape
from assay.load.workloads.texts import approximate_tokens
from assay.load.workloads.workload import Objective, ServiceLevel


def test_the_names_of_the_command_line() -> None:
    assert NAMES == ("chat", "rag", "sessions", "edit", "batch", "decode", "vllm-decode")


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_the_same_for_a_seed_and_its_prompts_differ(name: str) -> None:
    made = workload(name, seed=3)
    assert made == workload(name, seed=3)
    assert len({one.prompt for one in made.requests}) == len(made.requests)
    other = workload(name, seed=4)
    assert not {one.prompt for one in made.requests} & {one.prompt for one in other.requests}
    assert [one.number for one in made.requests] == list(range(len(made.requests)))
    assert made.arrival == "closed"
    assert made.concurrency is not None
    assert made.source == "built-in"
    assert "approximate" in made.notes[0]


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_as_long_as_the_notes_say(name: str) -> None:
    lengths = [approximate_tokens(one.prompt) for one in workload(name, requests=200).requests]
    assert min(lengths) >= {"chat": 7, "rag": 265, "edit": 100}.get(name, 1)
    middle = {"chat": 48, "rag": 304, "edit": 128, "batch": 64, "decode": 16, "vllm-decode": 128,
              "sessions": 36 + 64}  # fmt: skip
    assert statistics.median(lengths) == pytest.approx(middle[name], rel=0.15)


def test_lengths_can_be_given_or_scaled() -> None:
    given = workload("chat", requests=9, input_tokens=100, output_tokens="5-6")
    assert all(99 <= approximate_tokens(one.prompt) <= 100 for one in given.requests)
    assert {one.max_tokens for one in given.requests} == {5, 6}
    assert workload("chat", output_tokens=Uniform(9, 9)).requests[0].max_tokens == 9
    small, large = workload("rag", requests=20), workload("rag", requests=20, scale=GPU_SCALE)
    ratio = [
        approximate_tokens(after.prompt) / approximate_tokens(before.prompt)
        for before, after in zip(small.requests, large.requests, strict=True)
    ]
    assert statistics.mean(ratio) == pytest.approx(GPU_SCALE, rel=0.02)
    # Its lengths are its definition.
    assert workload("vllm-decode", scale=4.0) == workload("vllm-decode")


def test_rag_prompts_share_one_of_a_few_beginnings() -> None:
    requests = workload("rag", requests=12).requests
    beginnings = {one.prompt[:400] for one in requests}
    assert len(beginnings) == PREFIXES
    for one in requests:
        assert approximate_tokens(one.prompt[:400]) < one.prefix_tokens == 200
        assert one.prompt[:400] == requests[one.number % PREFIXES].prompt[:400]


def test_turns_of_a_session_begin_with_what_was_said_before() -> None:
    requests = workload("sessions", requests=2 * 4 * SESSIONS).requests
    for request in requests:
        turn = request.number // SESSIONS % 4
        assert request.prefix_tokens == 64 * turn
        if turn:
            # The turn before, of the same session; a text has a token or two less than it may.
            before = requests[request.number - SESSIONS]
            words = zip(request.prompt.split(), before.prompt.split(), strict=False)
            said = [word for word, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], words)]
            assert approximate_tokens(" ".join(said)) >= 0.95 * before.prefix_tokens
            assert approximate_tokens(request.prompt) > 0.95 * request.prefix_tokens
    others = {request.prompt[:60] for request in requests if request.number // SESSIONS % 4 == 3}
    assert len(others) == 2 * SESSIONS
    assert shape(workload("sessions")).prefix_share > 0.5
    scaled = workload("sessions", scale=GPU_SCALE).requests[-1]
    assert scaled.prefix_tokens == 3 * 64 * GPU_SCALE


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, GPU_SCALE])
def test_the_passage_of_an_edit_stands_before_its_copy_and_fills_the_output(scale: float) -> None:
    for one in workload("edit", requests=40, scale=scale).requests:
        passage, begun = one.prompt.removeprefix("Text:\n").split("\n\n")
        first, *rest = passage.split("\n")
        assert begun == f"Copy of the text, line by line:\n{first}\n"
        # Not shorter than the output: the model does not run out of text to repeat.
        assert approximate_tokens(" ".join(rest)) >= one.max_tokens


def test_only_a_chat_is_sampled_with_a_seed_for_each_request() -> None:
    sampling = [one.sampling for one in workload("chat", requests=3).requests]
    assert sampling == [{"temperature": 0.7, "seed": number} for number in range(3)]
    for name in set(NAMES) - {"chat"}:
        assert all(not one.sampling for one in workload(name, requests=3).requests)


def test_all_requests_of_a_batch_run_at_once() -> None:
    assert workload("batch").concurrency == len(workload("batch").requests)
    assert workload("batch", requests=7).concurrency == 7
    assert workload("batch", requests=7, concurrency=3).concurrency == 3


def test_vllm_decode_is_the_grid_of_vllm_measurements() -> None:
    made = workload("vllm-decode", concurrency=64)
    assert {one.max_tokens for one in made.requests} == {144}
    assert made.objective == Objective("mean_tpot_ms", "lower")
    assert made.concurrency == 64


def test_a_rate_makes_an_open_loop() -> None:
    made = workload("chat", requests=40, rate=2.0)
    assert (made.arrival, made.rate, made.concurrency) == ("poisson", 2.0, None)
    assert made.requests[-1].arrival_s == pytest.approx(20.0)
    assert made.requests[0].prompt == workload("chat").requests[0].prompt
    bursty = workload("chat", requests=4, rate=2.0, burstiness=0.5, concurrency=8)
    assert (bursty.arrival, bursty.concurrency) == ("burst", 8)


def test_slo_objective_and_tokenizer_are_taken_over() -> None:
    slo, objective = ServiceLevel(ttft_ms=5.0), Objective("p99_ttft_ms", "lower")
    made = workload("chat", requests=1, slo=slo, objective=objective, count=len)
    assert (made.slo, made.objective) == (slo, objective)
    assert "tokenizer" in made.notes[0]
    assert len(made.requests[0].prompt) <= BUILT_IN["chat"].input.most  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("chatt", {}, 'unknown workload "chatt"'),
        ("chat", {"requests": 0}, "requests: expected from 1"),
        ("chat", {"requests": 10**9}, "requests: expected from 1"),
        ("chat", {"concurrency": 0}, "concurrency: expected at least 1"),
        ("chat", {"scale": 0.0}, "scale: expected above 0"),
        ("chat", {"scale": math.nan}, "scale: expected above 0"),
        ("chat", {"rate": -1.0}, "rate: expected"),
        ("chat", {"input_tokens": "many"}, "input_tokens: expected a length"),
        ("batch", {"requests": 100, "input_tokens": 10**6}, "at most .* prompt tokens in all"),
    ],
)
def test_impossible_workloads_are_refused(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(AssayError, match=message):
        workload(name, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_real_model_repeats_the_text_of_an_edit_and_not_that_of_a_chat(smollm2: object) -> None:
    """Prompt lookup: most drafts of `edit` are accepted; `chat` has few that are."""
    accepted = {}
    with Engine.load(str(smollm2), speculation_depth=4) as engine:
        for name in ("edit", "chat"):
            made = workload(name, requests=6, output_tokens=48)
            before = engine.statistics()
            params = [
                SamplingParams(
                    max_tokens=48, ignore_eos=True, **{"temperature": 0.0, **one.sampling}
                )
                for one in made.requests
            ]
            engine.generate([one.prompt for one in made.requests], params)
            after = engine.statistics()
            tokens = after["generated_tokens"] - before["generated_tokens"]
            accepted[name] = (after["accepted_tokens"] - before["accepted_tokens"]) / tokens
    assert accepted["edit"] > 0.6
    assert accepted["chat"] < 0.35
