"""A KV cache of the size that a device's memory allows."""

import pytest
from small_models import fixture_files

from assay.engine import Engine, SamplingParams
from assay.errors import InputError, OutOfMemoryError
from chosen_device import cpu_only, new_device

MEMORY = 512 << 20


@cpu_only
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_cache_takes_what_is_left_of_a_share(share):
    device = new_device(memory_bytes=MEMORY)
    with Engine.load(fixture_files("llama"), device, max_batch=1024, token_budget=1024) as engine:
        per_token = engine.describe()["kv_bytes"] / engine._state.kv.capacity
        tokens = engine.fill_kv_cache(share)
        report = device.memory_report()
        limit = engine.settings.max_batch * engine.model.shape.context
        left = share * report.device_bytes - report.pool["allocated_bytes"]
        # The pool hands memory out in slabs of 32 MiB.
        assert tokens == limit or abs(left) < 32 * per_token + (32 << 20)
        assert engine.context_limit == min(tokens, engine.model.shape.context)
        [answer] = engine.generate([[3, 4]], SamplingParams(max_tokens=4))
        assert len(answer.token_ids) <= 4


@cpu_only
def test_no_memory_for_a_token_and_a_wrong_share_are_refused():
    with Engine.load(fixture_files("llama"), new_device(memory_bytes=MEMORY)) as engine:
        before = engine._state.kv.capacity
        with pytest.raises(OutOfMemoryError, match="KV cache: expected memory for a token"):
            engine.fill_kv_cache(1e-6)
        with pytest.raises(InputError, match="share: expected more than 0"):
            engine.fill_kv_cache(1.5)
        assert engine._state.kv.capacity == before
