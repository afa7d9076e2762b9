"""Engines that sleep: memory is freed, and outputs are the same afterwards."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from lora_folders import factors_of, write_adapter
from small_models import fixture_files

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import InputError, OutOfMemoryError
from chosen_device import NAME, new_device

GREEDY = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
PROMPT = [3, 17, 5, 90, 41, 8, 77, 2]


def test_weights_move_to_the_host_and_back() -> None:
    device = new_device()
    with Engine.load(synthetic_model(seed=21), device, kv_tokens=512) as engine:
        [before] = engine.generate([PROMPT], GREEDY)
        logits = engine.logits(PROMPT)
        used = device.memory_report().pool["allocated_bytes"]
        for _ in range(2):
            evicted = engine.sleep()
            assert engine.is_sleeping
            report = device.memory_report()
            assert evicted.kept_bytes == 0
            assert evicted.moved_bytes >= engine.model.weight_bytes
            assert report.evictable is not None
            assert report.evictable["spilled_bytes"] == evicted.moved_bytes
            assert report.pool["allocated_bytes"] < 0.05 * used
            assert engine.sleep() == evicted, "a second call changes nothing"
            engine.wake_up()
            assert not engine.is_sleeping
            [after] = engine.generate([PROMPT], GREEDY)
            assert after.token_ids == before.token_ids
            np.testing.assert_array_equal(engine.logits(PROMPT), logits)
    device.verify()


def test_steps_are_captured_on_one_stream_however_often_they_are_rebuilt() -> None:
    """Each stream has scratch memory of its own, which graphs share: 280 MB of an 8B model."""
    device = new_device(pool_bytes=64 << 20)
    with Engine.load(synthetic_model(seed=22), device, kv_tokens=512) as engine:
        for _ in range(2):
            before = device.stream().number
            for batch in (2, 3, 4):
                engine.configure({"max_batch": batch})
                engine.generate([PROMPT], GREEDY)
            assert device.stream().number == before + 1
            engine.sleep()
            engine.wake_up()


def test_an_engine_that_sleeps_or_is_closed_keeps_no_stream_and_so_no_scratch_memory() -> None:
    with Engine.load(
        fixture_files("llama"), NAME, speculation_depth=2, speculation_method="draft_model"
    ) as engine:
        engine.generate([PROMPT], GREEDY)
        streams = engine._state._capture_streams
        asleep = [weakref.ref(stream) for stream in streams.values()]
        engine.sleep()
        gc.collect()
        assert [stream() for stream in asleep] == [None] * 2
        engine.wake_up()
        engine.generate([PROMPT], GREEDY)
        closed = [weakref.ref(stream) for stream in streams.values()]
    gc.collect()
    assert [stream() for stream in closed] == [None] * 2


def test_weights_stay_on_the_device_when_others_need_memory_later() -> None:
    device = new_device(pool_bytes=64 << 20)
    with Engine.load(synthetic_model(seed=22), device, kv_tokens=512) as engine:
        engine.sleep()
        engine.wake_up()
        with pytest.raises(OutOfMemoryError):
            device.allocate(64 << 20)
        report = device.memory_report()
        assert report.evictable is not None
        assert report.evictable["spilled_bytes"] == 0


def test_an_engine_without_memory_to_wake_up_stays_asleep() -> None:
    device = new_device(pool_bytes=32 << 20)
    with Engine.load(synthetic_model(seed=23), device, kv_tokens=512) as engine:
        [before] = engine.generate([PROMPT], GREEDY)
        engine.sleep()
        others = device.allocate(31 << 20)
        with pytest.raises(OutOfMemoryError):
            engine.wake_up()
        assert engine.is_sleeping
        others.free()
        engine.wake_up()
        [after] = engine.generate([PROMPT], GREEDY)
        assert after.token_ids == before.token_ids


def test_calls_are_refused_while_it_sleeps() -> None:
    with Engine.load(fixture_files("llama"), NAME) as engine:
        engine.add_request(PROMPT, GREEDY)
        with pytest.raises(InputError, match="sleep: expected no requests under way, got 1"):
            engine.sleep()
        while engine.has_work:
            engine.step()
        engine.sleep()
        for call in (
            lambda: engine.add_request(PROMPT, GREEDY),
            lambda: engine.logits(PROMPT),
            lambda: engine.configure({"max_batch": 2}),
            engine.step,
            engine.reset_prefix_cache,
        ):
            with pytest.raises(InputError, match="expected to be awake, got asleep"):
                call()
        assert engine.statistics()["running"] == 0
        assert engine.describe()["kv_bytes"] == 0
    with pytest.raises(InputError, match="closed"):
        engine.wake_up()


def test_adapters_and_draft_models_sleep_too(tmp_path: Path) -> None:
    files = fixture_files("llama")
    folder = write_adapter(tmp_path / "adapter", factors_of(files, ("q_proj",), rank=4, seed=1))
    with Engine.load(
        files,
        NAME,
        adapters={"tuned": folder},
        speculation_depth=2,
        speculation_method="draft_model",
        draft_weight_format="int8",
    ) as engine:
        [before] = engine.generate([PROMPT], GREEDY, adapter="tuned")
        evicted = engine.sleep()
        engine.wake_up()
        [after] = engine.generate([PROMPT], GREEDY, adapter="tuned")
        assert after.token_ids == before.token_ids
        assert evicted.moved_bytes > engine.model.weight_bytes
