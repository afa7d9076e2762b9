"""What goes wrong between two steps leaves an engine that goes on where it was."""

import pytest
from small_models import fixture_engine

from assay.engine import SamplingParams
from assay.engine.core.knobs import KNOBS
from assay.errors import InputError, OutOfMemoryError
from chosen_device import about_processors, own_device

GREEDY = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)


def finish(engine):
    """Step until all are done; tokens by request."""
    said = {}
    while engine.has_work:
        for output in engine.step():
            said.setdefault(output.request_id, []).extend(output.token_ids)
    return said


def crowded_engine(monkeypatch, room_bytes):
    """An engine whose KV cache begins with 64 tokens, and a device with little room besides."""
    monkeypatch.setattr("assay.engine.core.engine_state.FIRST_KV_TOKENS", 64)
    device = own_device(limit_bytes=32 << 20)
    engine = fixture_engine("llama", device, deterministic=True)
    used = device.pool_statistics()["allocated_bytes"]
    filler = device.allocate((32 << 20) - used - room_bytes)
    return engine, filler


def test_a_request_for_which_the_cache_cannot_grow_fails_alone(monkeypatch):
    with fixture_engine("llama", deterministic=True) as roomy:
        [expected] = roomy.generate([[5] * 20], GREEDY)
    engine, _filler = crowded_engine(monkeypatch, room_bytes=0)
    with engine:
        engine.add_request([5] * 20, GREEDY, "small")
        first = [token for output in engine.step() for token in output.token_ids]
        with pytest.raises(OutOfMemoryError):
            engine.add_request([6] * 100, GREEDY, "large")
        assert engine.statistics()["blocks"] == 4
        assert tuple(first + finish(engine)["small"]) == expected.token_ids
        assert engine.statistics()["used"] == 0


def test_a_cache_that_cannot_grow_makes_requests_wait(monkeypatch):
    prompts = [[index + 3] * 30 for index in range(4)]
    with fixture_engine("llama", deterministic=True, kv_tokens=1024) as roomy:
        expected = [one.token_ids for one in roomy.generate(prompts, GREEDY)]
    engine, _filler = crowded_engine(monkeypatch, room_bytes=0)
    with engine:
        assert [one.token_ids for one in engine.generate(prompts, GREEDY)] == expected
        [told] = engine.describe()["degradations"]
    assert told.startswith("the KV cache stays at 64 tokens: ")


def test_a_step_that_cannot_be_launched_ahead_is_launched_later(monkeypatch):
    with fixture_engine("llama", deterministic=True, overlap="off") as plain:
        [expected] = plain.generate([[5, 6, 7]], GREEDY)
    with fixture_engine("llama", deterministic=True, overlap="on", kv_tokens=1024) as engine:
        engine.add_request([5, 6, 7], GREEDY, "one")
        launch = engine._parts.runner.launch
        refused = []

        def stumbling(turns, **rest):
            if rest["after"] is not None and len(refused) < 2:
                refused.append(turns)
                raise OutOfMemoryError("workspace: expected room, got none")
            return launch(turns, **rest)

        monkeypatch.setattr(engine._parts.runner, "launch", stumbling)
        assert tuple(finish(engine)["one"]) == expected.token_ids
    assert len(refused) == 2


def test_what_a_step_gave_is_taken_before_other_prompts_are_completed():
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        params = SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True)
        engine.add_request([5, 6, 7], params, "one")
        engine.step()
        # Waits for the step under way, which ends the request.
        engine.configure({"policy": "shortest"})
        assert not engine.is_under_way("one")
        with pytest.raises(InputError, match="expected no requests under way, got 1"):
            engine.generate([[8, 9]], params)
        assert len(finish(engine)["one"]) == 1
        assert len(engine.generate([[8, 9]], params)[0].token_ids) == 2


def test_a_stream_gives_its_own_text_and_keeps_what_others_say():
    with fixture_engine("llama", deterministic=True) as engine:
        [alone] = engine.generate([[5, 6, 7]], GREEDY)
        [other] = engine.generate([[8, 9]], GREEDY)
        stream = engine.stream([5, 6, 7], GREEDY)
        said = [next(stream).token_id]
        engine.add_request([8, 9], GREEDY, "other")
        said += [chunk.token_id for chunk in stream]
        assert tuple(said) == alone.token_ids
        assert tuple(finish(engine)["other"]) == other.token_ids


@pytest.mark.parametrize(
    ("knob", "position"),
    [("token_budget", 4096), pytest.param("kv_format", "f32", marks=about_processors)],
)
def test_a_change_for_which_there_is_no_memory_changes_nothing(knob, position, monkeypatch):
    with fixture_engine("llama", deterministic=True) as roomy:
        [expected] = roomy.generate([[5] * 20], GREEDY)
    engine, _filler = crowded_engine(monkeypatch, room_bytes=0)
    with engine:
        engine.add_request([5] * 20, GREEDY, "one")
        first = [token for output in engine.step() for token in output.token_ids]
        with pytest.raises(OutOfMemoryError):
            engine.configure({knob: position})
        assert getattr(engine.settings, knob) == KNOBS[knob].default
        assert tuple(first + finish(engine)["one"]) == expected.token_ids


def test_nothing_comes_of_a_request_after_its_end():
    with fixture_engine("llama", overlap="on", deterministic=True, kv_tokens=1024) as engine:
        [alone] = engine.generate([[5, 6, 7]], GREEDY)
        engine.add_request([5, 6, 7], GREEDY, "one")
        said = [token for output in engine.step() for token in output.token_ids]
        # Waits for the step under way, whose token nobody has taken yet.
        engine.configure({"policy": "shortest"})
        said += engine.abort("one").token_ids
        assert not engine.has_work
        assert tuple(said) == alone.token_ids[:2]


def test_a_closed_engine_can_still_be_described():
    with fixture_engine("llama") as engine:
        before = engine.describe()
    assert engine.describe() == before
