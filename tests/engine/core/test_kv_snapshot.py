"""The KV cache taken out, and put back into the same or another engine."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import fixture_engine, fixture_files

from assay.engine import SamplingParams
from assay.engine.models.registry import fingerprint
from assay.errors import InputError
from chosen_device import ON_GPU

STEADY = {"deterministic": True}
"""What is restored and what is computed anew are equal in this mode."""
GREEDY = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
PROMPT = list(range(3, 53))


def test_a_snapshot_saves_reading_a_prompt_again():
    with fixture_engine("llama", **STEADY) as engine:
        [first] = engine.generate([PROMPT], GREEDY)
        snapshot = engine.snapshot_kv_cache()
    assert snapshot.tokens == 48
    with fixture_engine("llama", **STEADY) as other:
        assert other.restore_kv_cache(snapshot) == 48
        [again] = other.generate([PROMPT], GREEDY)
        assert again.cached_tokens == 48
        assert again.token_ids == first.token_ids
        # What is there already is not put back twice.
        assert other.restore_kv_cache(snapshot) == 0
        taken = other.snapshot_kv_cache()
        assert np.array_equal(taken.data[: len(snapshot.data)], snapshot.data)


def test_running_requests_are_part_of_a_snapshot_and_go_on_after_a_restore():
    with fixture_engine("llama", **STEADY) as engine:
        [expected] = engine.generate([PROMPT], GREEDY)
    with fixture_engine("llama", kv_tokens=80, **STEADY) as engine:
        engine.add_request(PROMPT, GREEDY)
        said = engine.step()[0].token_ids
        snapshot = engine.snapshot_kv_cache()
        assert snapshot.tokens == 48
        with fixture_engine("llama", **STEADY) as other:
            other.generate([[9] * 64], GREEDY)
            filler = other.snapshot_kv_cache()
        # Only what finds room is put back; the running request keeps its blocks.
        assert engine.restore_kv_cache(filler) == 16
        while engine.has_work:
            said += engine.step()[0].token_ids
    assert said == list(expected.token_ids)


def test_a_snapshot_of_another_model_is_refused():
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


def test_weights_are_told_apart_by_their_content():
    files = fixture_files("llama")
    name = "model.layers.1.mlp.down_proj.weight"
    tensor = files.tensors[name]
    changed = bytearray(tensor.bytes)
    changed[-1] ^= 1
    other = replace(tensor, bytes=memoryview(changed))
    swapped = replace(files, tensors={**files.tensors, name: other})
    assert fingerprint(files) == fingerprint(fixture_files("llama"))
    assert fingerprint(files) != fingerprint(swapped)
