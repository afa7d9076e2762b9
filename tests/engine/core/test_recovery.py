"""A failure between two steps leaves the engine and its running requests as they were."""

import pytest
from small_models import fixture_engine

from assay.engine import SamplingParams
from assay.engine.core.knobs import KNOBS
from assay.errors import InputError, OutOfMemoryError
from chosen_device import cpu_only, new_device

GREEDY = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)


def finish(engine):
    """Step until all requests have finished; tokens by request."""
    tokens = {}
    while engine.has_work:
        for output in engine.step():
            tokens.setdefault(output.request_id, []).extend(output.token_ids)
    return tokens


def crowded_engine(monkeypatch, room_bytes):
    """An engine with an initial KV cache of 64 tokens, on a device with little free memory."""
    monkeypatch.setattr("assay.engine.core.engine_state.FIRST_KV_TOKENS", 64)
    device = new_device(limit_bytes=32 << 20)
    engine = fixture_engine("llama", device, deterministic=True)
    used = device.pool_statistics()["allocated_bytes"]
    filler = device.allocate((32 << 20) - used - room_bytes)
    return engine, filler


def test_request_for_which_the_cache_cannot_grow_is_refused(monkeypatch):
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


def test_requests_wait_when_the_cache_cannot_grow(monkeypatch):
    prompts = [[index + 3] * 30 for index in range(4)]
    with fixture_engine("llama", deterministic=True, kv_tokens=1024) as roomy:
        expected = [one.token_ids for one in roomy.generate(prompts, GREEDY)]
    engine, _filler = crowded_engine(monkeypatch, room_bytes=0)
    with engine:
        assert [one.token_ids for one in engine.generate(prompts, GREEDY)] == expected
        [degradation] = engine.describe()["degradations"]
    assert degradation.startswith("the KV cache stays at 64 tokens: ")


def test_failed_launch_ahead_is_retried_by_the_next_step(monkeypatch):
    with fixture_engine("llama", deterministic=True, overlap="off") as synchronous:
        [expected] = synchronous.generate([[5, 6, 7]], GREEDY)
    with fixture_engine("llama", deterministic=True, overlap="on", kv_tokens=1024) as engine:
        engine.add_request([5, 6, 7], GREEDY, "one")
        launch = engine._state.runner.launch
        refused = []

        def failing(scheduled, **rest):
            if rest["after"] is not None and len(refused) < 2:
                refused.append(scheduled)
                raise OutOfMemoryError("workspace: expected room, got none")
            return launch(scheduled, **rest)

        monkeypatch.setattr(engine._state.runner, "launch", failing)
        assert tuple(finish(engine)["one"]) == expected.token_ids
    assert len(refused) == 2


def test_generate_is_refused_while_outputs_are_undelivered():
    with fixture_engine("llama", overlap="on", kv_tokens=1024) as engine:
        params = SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True)
        engine.add_request([5, 6, 7], params, "one")
        engine.step()
        # Collects the in-flight step, which finishes the request.
        engine.configure({"policy": "shortest"})
        assert not engine.is_under_way("one")
        with pytest.raises(InputError, match="expected no requests under way, got 1"):
            engine.generate([[8, 9]], params)
        assert len(finish(engine)["one"]) == 1
        assert len(engine.generate([[8, 9]], params)[0].token_ids) == 2


def test_stream_keeps_outputs_of_other_requests():
    with fixture_engine("llama", deterministic=True) as engine:
        [alone] = engine.generate([[5, 6, 7]], GREEDY)
        [other] = engine.generate([[8, 9]], GREEDY)
        stream = engine.stream([5, 6, 7], GREEDY)
        tokens = [next(stream).token_id]
        engine.add_request([8, 9], GREEDY, "other")
        tokens += [chunk.token_id for chunk in stream]
        assert tuple(tokens) == alone.token_ids
        assert tuple(finish(engine)["other"]) == other.token_ids


@pytest.mark.parametrize(
    ("knob", "value"), [("token_budget", 4096), pytest.param("kv_format", "f32", marks=cpu_only)]
)
def test_setting_change_without_memory_is_rolled_back(knob, value, monkeypatch):
    with fixture_engine("llama", deterministic=True) as roomy:
        [expected] = roomy.generate([[5] * 20], GREEDY)
    engine, _filler = crowded_engine(monkeypatch, room_bytes=0)
    with engine:
        engine.add_request([5] * 20, GREEDY, "one")
        first = [token for output in engine.step() for token in output.token_ids]
        with pytest.raises(OutOfMemoryError):
            engine.configure({knob: value})
        assert getattr(engine.settings, knob) == KNOBS[knob].default
        assert tuple(first + finish(engine)["one"]) == expected.token_ids


def test_abort_returns_the_undelivered_token():
    with fixture_engine("llama", overlap="on", deterministic=True, kv_tokens=1024) as engine:
        [alone] = engine.generate([[5, 6, 7]], GREEDY)
        engine.add_request([5, 6, 7], GREEDY, "one")
        tokens = [token for output in engine.step() for token in output.token_ids]
        # Collects the in-flight step, whose token is not delivered yet.
        engine.configure({"policy": "shortest"})
        tokens += engine.abort("one").token_ids
        assert not engine.has_work
        assert tuple(tokens) == alone.token_ids[:2]


def test_closed_engine_can_be_described():
    with fixture_engine("llama") as engine:
        before = engine.describe()
    assert engine.describe() == before
