"""Async scheduling: a step launched before the last one's tokens are read changes no output."""

import random

import pytest
from small_models import FIXTURES, fixture_engine

from assay.engine import SamplingParams
from assay.engine.core.step_loop import run_step
from assay.engine.requests.pending_token import PendingToken
from chosen_device import kv_block_size

PROMPTS = [
    [(11 * index + position**2) % 90 + 3 for position in range(5 + 9 * index)] for index in range(7)
]


def mixed_params(**more):
    """Greedy and sampled requests that end after different numbers of tokens."""
    return [
        SamplingParams(
            max_tokens=6 + 5 * index,
            temperature=0.9 if index % 2 else 0.0,
            seed=index,
            ignore_eos=index % 3 != 0,
            **more,
        )
        for index in range(len(PROMPTS))
    ]


def outputs(name, params, **settings):
    with fixture_engine(name, deterministic=True, **settings) as engine:
        done = engine.generate(PROMPTS, params)
        counts = engine.statistics()
    assert (counts["used"], counts["running"], counts["waiting"]) == (0, 0, 0)
    return [(one.token_ids, one.text, one.finish_reason) for one in done], counts


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"token_budget": 9, "max_batch": 3},
        {"max_batch": 2, "policy": "shortest"},
        {"kv_tokens": 112},
        {"kv_tokens": 1024, "block_tokens": kv_block_size(4), "prefix_caching": False},
    ],
    ids=str,
)
def test_overlapped_outputs_equal_synchronous_outputs(name, settings):
    expected, _ = outputs(name, mixed_params(), overlap="off", **settings)
    got, _ = outputs(name, mixed_params(), overlap="on", **settings)
    assert got == expected


def test_stopped_request_drops_the_result_of_the_step_in_flight():
    [(free, _, _), *_], _ = outputs("llama", mixed_params(), overlap="off")
    # The first request stops where its fourth token first occurs.
    params = mixed_params(stop_token_ids=(free[3],))
    expected, synchronous = outputs("llama", params, overlap="off", kv_tokens=1024)
    got, overlapped = outputs("llama", params, overlap="on", kv_tokens=1024)
    assert got == expected
    assert any(reason == "stop" for _, _, reason in got)
    for name in ("prompt_tokens", "generated_tokens"):
        assert overlapped[name] == synchronous[name]


def test_next_step_is_in_flight_when_tokens_are_read():
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        engine.add_request(PROMPTS[0], SamplingParams(max_tokens=3, ignore_eos=True))
        seen = []
        while engine.has_work:
            outputs = engine.step()
            in_flight = engine._state.in_flight
            seen.append((sum(len(one.chunks) for one in outputs), in_flight is not None))
    # The maximum length is known beforehand, so no step is launched after the last token.
    assert seen == [(1, True), (1, True), (1, False)]


@pytest.mark.parametrize(
    "more", [{"repetition_penalty": 1.3}, {"logprobs": 4}, {"logprobs": 0}], ids=str
)
def test_steps_that_need_known_tokens_are_not_launched_ahead(more):
    expected, _ = outputs("llama", mixed_params(**more), overlap="off", kv_tokens=1024)
    got, _ = outputs("llama", mixed_params(**more), overlap="on", kv_tokens=1024)
    assert got == expected
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        engine.add_request(PROMPTS[1], SamplingParams(max_tokens=8, ignore_eos=True, **more))
        engine.step()
        waits = more != {"logprobs": 0}
        assert (engine._state.in_flight is None) == waits


@pytest.mark.parametrize("seed", range(6))
def test_script_of_aborts_and_setting_changes_gives_equal_outputs(seed):
    """The same calls with and without overlap, between any two tokens."""

    def play(overlap):
        generator = random.Random(seed)
        tokens: dict[str, list[int]] = {}
        settings = {"deterministic": True, "overlap": overlap, "max_batch": 4}
        with fixture_engine("llama", kv_tokens=512, **settings) as engine:

            def collect(outputs):
                for output in outputs:
                    tokens.setdefault(output.request_id, []).extend(output.token_ids)

            for number, prompt in enumerate(PROMPTS):
                params = SamplingParams(
                    max_tokens=generator.randrange(4, 20),
                    temperature=1.0,
                    seed=number,
                    ignore_eos=True,
                )
                engine.add_request(prompt, params, f"r{number}")
            changes = [
                {"max_batch": 2},
                {"block_tokens": kv_block_size(24)},
                {"token_budget": 16},
                {"max_batch": 5},
            ]
            for change in changes:
                for _ in range(generator.randrange(1, 5)):
                    collect(engine.step())
                engine.configure(change)
            engine.abort("r6")
            tokens.pop("r6", None)
            while engine.has_work:
                collect(engine.step())
            counts = engine.statistics()
            assert (counts["used"], counts["running"]) == (0, 0)
        tokens.pop("r6", None)
        return tokens

    assert play("on") == play("off")


def test_fork_continues_from_the_pending_token():
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
    with fixture_engine("llama", overlap="on", deterministic=True, kv_tokens=1024) as engine:
        [alone] = engine.generate([PROMPTS[2]], params)
        engine.add_request(PROMPTS[2], params, "first")
        tokens = {"first": [], "second": []}
        for _ in range(3):
            tokens["first"] += [token for one in engine.step() for token in one.token_ids]
        engine.fork("first", params, "second")
        # The token that the in-flight step sampled is part of both.
        while engine.has_work:
            for output in engine.step():
                tokens[output.request_id] += output.token_ids
    assert tuple(tokens["first"]) == alone.token_ids
    assert tuple(tokens["second"]) == alone.token_ids[-len(tokens["second"]) :]
    assert len(tokens["second"]) == 8


def test_in_flight_step_of_aborted_requests_is_dropped():
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        name = engine.add_request(PROMPTS[0], SamplingParams(max_tokens=9, ignore_eos=True))
        engine.step()
        engine.abort(name)
        assert not engine.has_work
        assert run_step(engine._state, engine._counters) == []
        assert engine._state.in_flight is None


def test_pending_token_is_kept_apart_from_known_tokens(monkeypatch):
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        name = engine.add_request(PROMPTS[0], SamplingParams(max_tokens=4, ignore_eos=True))
        launch = engine._state.runner.launch
        seen = []

        def watched(scheduled, **options):
            [request] = [sequence.request for sequence in scheduled]
            seen.append((request.pending, len(request.tokens), request.num_tokens))
            return launch(scheduled, **options)

        monkeypatch.setattr(engine._state.runner, "launch", watched)
        request = engine._requests[name]
        while engine.has_work:
            engine.step()
            assert request.pending is None
        assert min(request.tokens) >= 0
    length = len(PROMPTS[0])
    assert seen[0] == (None, length, length)
    assert seen[1:] == [(PendingToken(0), length + index, length + index + 1) for index in range(3)]
