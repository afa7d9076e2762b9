"""Snapshots of the prefix cache, restored into the same or another engine."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import fixture_engine, fixture_files

from assay.engine import SamplingParams
from assay.engine.models.registry import fingerprint
from assay.errors import InputError
from chosen_device import ON_GPU

DETERMINISTIC = {"deterministic": True}
"""In this mode restored and recomputed blocks are equal."""
GREEDY = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
PROMPT = list(range(3, 53))


def test_restored_snapshot_serves_a_prefix():
    with fixture_engine("llama", **DETERMINISTIC) as engine:
        [first] = engine.generate([PROMPT], GREEDY)
        snapshot = engine.snapshot_kv_cache()
    assert snapshot.tokens == 48
    with fixture_engine("llama", **DETERMINISTIC) as other:
        assert other.restore_kv_cache(snapshot) == 48
        [again] = other.generate([PROMPT], GREEDY)
        assert again.cached_tokens == 48
        assert again.token_ids == first.token_ids
        # Blocks that are cached already are not restored twice.
        assert other.restore_kv_cache(snapshot) == 0
        second = other.snapshot_kv_cache()
        assert np.array_equal(second.data[: len(snapshot.data)], snapshot.data)


def test_running_requests_continue_after_a_restore():
    with fixture_engine("llama", **DETERMINISTIC) as engine:
        [expected] = engine.generate([PROMPT], GREEDY)
    with fixture_engine("llama", kv_tokens=80, **DETERMINISTIC) as engine:
        engine.add_request(PROMPT, GREEDY)
        tokens = engine.step()[0].token_ids
        snapshot = engine.snapshot_kv_cache()
        assert snapshot.tokens == 48
        with fixture_engine("llama", **DETERMINISTIC) as other:
            other.generate([[9] * 64], GREEDY)
            filler = other.snapshot_kv_cache()
        # Only as many blocks as are free are restored; the running request keeps its own.
        assert engine.restore_kv_cache(filler) == 16
        while engine.has_work:
            tokens += engine.step()[0].token_ids
    assert tokens == list(expected.token_ids)


def test_snapshot_of_another_model_is_refused():
    with fixture_engine("llama") as engine:
        engine.generate([PROMPT], GREEDY)
        snapshot = engine.snapshot_kv_cache()
    for name, settings in (
        ("mistral", {}),
        ("llama", {"block_tokens": 32}),
        *([] if ON_GPU else [("llama", {"kv_format": "f32"})]),
        ("llama", {"weight_format": "q8_0"}),
    ):
        with (
            fixture_engine(name, **settings) as other,
            pytest.raises(InputError, match="expected one of the same weights"),
        ):
            other.restore_kv_cache(snapshot)


def test_fingerprint_depends_on_the_weights():
    files = fixture_files("llama")
    name = "model.layers.1.mlp.down_proj.weight"
    tensor = files.tensors[name]
    changed = bytearray(tensor.bytes)
    changed[-1] ^= 1
    other = replace(tensor, bytes=memoryview(changed))
    swapped = replace(files, tensors={**files.tensors, name: other})
    assert fingerprint(files) == fingerprint(fixture_files("llama"))
    assert fingerprint(files) != fingerprint(swapped)
