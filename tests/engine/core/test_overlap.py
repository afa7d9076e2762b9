"""A step that is launched before the last one's tokens are read changes nothing that is said."""

import random

import pytest
from small_models import FIXTURES, fixture_engine

from assay.engine import SamplingParams
from assay.engine.core.step_loop import run_step
from chosen_device import blocks_of

PROMPTS = [
    [(11 * index + place * place) % 90 + 3 for place in range(5 + 9 * index)] for index in range(7)
]


def listed(**more):
    """Greedy and drawn requests that end after different numbers of tokens."""
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


def answers(name, params, **settings):
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
        {"kv_tokens": 1024, "block_tokens": blocks_of(4), "prefix_caching": False},
    ],
    ids=str,
)
def test_outputs_are_those_of_steps_one_after_the_other(name, settings):
    expected, _ = answers(name, listed(), overlap="off", **settings)
    got, _ = answers(name, listed(), overlap="on", **settings)
    assert got == expected


def test_a_request_that_stops_has_taken_part_in_one_step_too_many():
    [(free, _, _), *_], _ = answers("llama", listed(), overlap="off")
    # Ends where the first request first says its fourth token.
    params = listed(stop_token_ids=(free[3],))
    expected, plain = answers("llama", params, overlap="off", kv_tokens=1024)
    got, overlapped = answers("llama", params, overlap="on", kv_tokens=1024)
    assert got == expected
    assert any(reason == "stop" for _, _, reason in got)
    for name in ("prompt_tokens", "generated_tokens"):
        assert overlapped[name] == plain[name]


def test_the_next_step_is_under_way_when_tokens_are_read():
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        engine.add_request(PROMPTS[0], SamplingParams(max_tokens=3, ignore_eos=True))
        seen = []
        while engine.has_work:
            gained = engine.step()
            flight = engine._parts.flight
            seen.append((sum(len(one.chunks) for one in gained), flight is not None))
    # The length is known beforehand, so the last token has no step behind it.
    assert seen == [(1, True), (1, True), (1, False)]


@pytest.mark.parametrize(
    "more", [{"repetition_penalty": 1.3}, {"logprobs": 4}, {"logprobs": 0}], ids=str
)
def test_requests_whose_next_step_needs_their_tokens_wait_for_them(more):
    expected, _ = answers("llama", listed(**more), overlap="off", kv_tokens=1024)
    got, _ = answers("llama", listed(**more), overlap="on", kv_tokens=1024)
    assert got == expected
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        engine.add_request(PROMPTS[1], SamplingParams(max_tokens=8, ignore_eos=True, **more))
        engine.step()
        waits = more != {"logprobs": 0}
        assert (engine._parts.flight is None) == waits


@pytest.mark.parametrize("seed", range(6))
def test_requests_that_come_go_fork_and_meet_other_settings(seed):
    """The same script of calls, with and without overlap; calls fall between any two tokens."""

    def play(overlap):
        chance = random.Random(seed)
        said: dict[str, list[int]] = {}
        settings = {"deterministic": True, "overlap": overlap, "max_batch": 4}
        with fixture_engine("llama", kv_tokens=512, **settings) as engine:

            def take(outputs):
                for output in outputs:
                    said.setdefault(output.request_id, []).extend(output.token_ids)

            for number, prompt in enumerate(PROMPTS):
                params = SamplingParams(
                    max_tokens=chance.randrange(4, 20),
                    temperature=1.0,
                    seed=number,
                    ignore_eos=True,
                )
                engine.add_request(prompt, params, f"r{number}")
            changes = [
                {"max_batch": 2},
                {"block_tokens": blocks_of(24)},
                {"token_budget": 16},
                {"max_batch": 5},
            ]
            for change in changes:
                for _ in range(chance.randrange(1, 5)):
                    take(engine.step())
                engine.configure(change)
            engine.abort("r6")
            said.pop("r6", None)
            while engine.has_work:
                take(engine.step())
            counts = engine.statistics()
            assert (counts["used"], counts["running"]) == (0, 0)
        said.pop("r6", None)
        return said

    assert play("on") == play("off")


def test_a_fork_goes_on_from_a_token_that_was_on_its_way():
    params = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
    with fixture_engine("llama", overlap="on", deterministic=True, kv_tokens=1024) as engine:
        [alone] = engine.generate([PROMPTS[2]], params)
        engine.add_request(PROMPTS[2], params, "first")
        said = {"first": [], "second": []}
        for _ in range(3):
            said["first"] += [token for one in engine.step() for token in one.token_ids]
        engine.fork("first", params, "second")
        # What the step under way had chosen is part of both.
        while engine.has_work:
            for output in engine.step():
                said[output.request_id] += output.token_ids
    assert tuple(said["first"]) == alone.token_ids
    assert tuple(said["second"]) == alone.token_ids[-len(said["second"]) :]
    assert len(said["second"]) == 8


def test_nothing_is_left_of_a_step_whose_requests_were_aborted():
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        name = engine.add_request(PROMPTS[0], SamplingParams(max_tokens=9, ignore_eos=True))
        engine.step()
        engine.abort(name)
        assert not engine.has_work
        assert run_step(engine._parts, engine._counts) == []
        assert engine._parts.flight is None
