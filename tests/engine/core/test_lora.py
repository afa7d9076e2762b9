"""LoRA adapters: those of NumPy-merged weights, alone and mixed in a batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lora_folders import factors_of, merged, write_adapter
from small_models import EXACT_CACHE, fixture_files

from assay.engine import Engine, SamplingParams
from assay.errors import AssayError, InputError
from chosen_device import NAME, cpu_only

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")
PROMPT = [3, 17, 5, 90, 41, 8, 77, 2, 60, 33, 12]
GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
TOLERANCE = 1e-5
"""Relative to the largest logit, in float32."""
pytestmark = cpu_only


def error(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        ("llama", (*ATTENTION, *MLP)),
        ("llama", ("q_proj", "v_proj")),
        ("qwen2", (*ATTENTION, *MLP)),
        ("qwen3", ("k_proj", "up_proj")),
        ("gpt2", ("c_attn", "c_proj", "c_fc")),
        ("mistral", ("o_proj", "down_proj")),
    ],
)
def test_an_adapter_equals_merged_weights(
    tmp_path: Path, model: str, targets: tuple[str, ...]
) -> None:
    files = fixture_files(model)
    factors = factors_of(files, targets, rank=4, seed=1)
    folder = write_adapter(tmp_path / "adapter", factors)
    with Engine.load(files, NAME, adapters={"tuned": folder}, kv_format=EXACT_CACHE) as engine:
        plain, adapted = engine.logits(PROMPT), engine.logits(PROMPT, "tuned")
    with Engine.load(files, NAME, kv_format=EXACT_CACHE) as engine:
        without = engine.logits(PROMPT)
    with Engine.load(merged(files, factors, 8 / 4), NAME, kv_format=EXACT_CACHE) as engine:
        expected = engine.logits(PROMPT)
    assert error(adapted, expected) < TOLERANCE
    np.testing.assert_array_equal(plain, without)
    assert error(plain, expected) > 0.1, "the adapter changes something"


def test_rows_in_the_order_of_a_gguf_file(tmp_path: Path) -> None:
    files = fixture_files("llama")
    drawn = factors_of(files, ATTENTION, rank=4, seed=8)
    # Larger scores than a trained model's would amplify the rounding of other sums.
    factors = {module: (a, np.float32(0.2) * b) for module, (a, b) in drawn.items()}
    folder = write_adapter(tmp_path / "adapter", factors)
    size = files.config["head_dim"]
    tensors = {}
    for name, tensor in files.tensors.items():
        tensors[name] = tensor
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # As llama.cpp's conversion script permutes them.
            values = tensor.to_float32()
            pairs = values.reshape(-1, 2, size // 2, values.shape[1]).swapaxes(1, 2)
            stored = np.ascontiguousarray(pairs.reshape(values.shape), np.float32)
            data = memoryview(stored).cast("B")
            tensors[name] = replace(tensor, format="f32", bytes=data, permuted=True)
        elif name.endswith("v_proj.weight"):
            stored = np.ascontiguousarray(tensor.to_float32())
            tensors[name] = replace(tensor, format="f32", bytes=memoryview(stored).cast("B"))
    like_gguf = replace(
        files, tensors=tensors, rope_pairs="interleaved", path=None, name="like-gguf"
    )
    with Engine.load(like_gguf, NAME, adapters={"tuned": folder}, kv_format=EXACT_CACHE) as engine:
        adapted = engine.logits(PROMPT, "tuned")
    with Engine.load(merged(files, factors, 2.0), NAME, kv_format=EXACT_CACHE) as engine:
        assert error(adapted, engine.logits(PROMPT)) < TOLERANCE


def test_rank_stabilized_scale(tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ("q_proj", "down_proj"), rank=4, seed=2)
    folder = write_adapter(tmp_path / "adapter", factors, use_rslora=True, lora_alpha=3)
    with Engine.load(files, NAME, adapters={"tuned": folder}, kv_format=EXACT_CACHE) as engine:
        adapted = engine.logits(PROMPT, "tuned")
    with Engine.load(merged(files, factors, 3 / 2), NAME, kv_format=EXACT_CACHE) as engine:
        assert error(adapted, engine.logits(PROMPT)) < TOLERANCE


def test_a_batch_mixes_adapters_and_none(tmp_path: Path) -> None:
    files = fixture_files("llama")
    both = {
        "first": factors_of(files, (*ATTENTION, *MLP), rank=4, seed=3),
        "second": factors_of(files, ("v_proj", "up_proj"), rank=9, seed=4),
    }
    folders = {name: write_adapter(tmp_path / name, factors) for name, factors in both.items()}
    names = [None, "first", "second", "first", None]
    prompts = [PROMPT[start:] for start in range(5)]
    with Engine.load(files, NAME, adapters=folders, deterministic=True) as engine:
        assert engine.adapters == ["first", "second"]
        expected = [
            engine.generate([prompt], GREEDY, adapter=name)[0].token_ids
            for prompt, name in zip(prompts, names, strict=True)
        ]
        assert expected[0] != expected[1]
        requests = [
            engine.add_request(prompt, GREEDY, adapter=name)
            for prompt, name in zip(prompts, names, strict=True)
        ]
        tokens: dict[str, list[int]] = {name: [] for name in requests}
        while engine.has_work:
            for output in engine.step():
                tokens[output.request_id] += output.token_ids
    assert [tuple(tokens[name]) for name in requests] == expected


def test_the_prefix_cache_is_of_an_adapter(tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ("k_proj", "v_proj"), rank=4, seed=5)
    folder = write_adapter(tmp_path / "adapter", factors)
    prompt = PROMPT * 4
    with Engine.load(files, NAME, adapters={"tuned": folder}, block_tokens=16) as engine:
        hits = []
        for adapter in (None, "tuned", "tuned", None):
            before = engine.statistics()["hit_tokens"]
            engine.generate([prompt], GREEDY, adapter=adapter)
            hits.append(engine.statistics()["hit_tokens"] - before)
        assert hits[0] == hits[1] == 0
        assert hits[2] == hits[3] > 0
        snapshot = engine.snapshot_kv_cache()
        assert engine.restore_kv_cache(snapshot) >= 0
    with Engine.load(files, NAME, block_tokens=16) as other, pytest.raises(InputError):
        other.restore_kv_cache(snapshot)


def test_speculation_and_changed_settings_keep_adapters(tmp_path: Path) -> None:
    files = fixture_files("llama")
    folder = write_adapter(
        tmp_path / "adapter", factors_of(files, (*ATTENTION, *MLP), rank=4, seed=6)
    )
    with Engine.load(files, NAME, adapters={"tuned": folder}, deterministic=True) as engine:
        [expected] = engine.generate([PROMPT], GREEDY, adapter="tuned")
        for changes in ({"speculation_depth": 3}, {"graph_buckets": 0}, {"graphs_per_step": 2}):
            undo = engine.configure(changes)
            [found] = engine.generate([PROMPT], GREEDY, adapter="tuned")
            assert found.token_ids == expected.token_ids, changes
            undo()


def test_unknown_adapters_and_other_shapes_are_refused(tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ("q_proj",), rank=4, seed=7)
    folder = write_adapter(tmp_path / "adapter", factors)
    with (
        Engine.load(files, NAME, adapters={"tuned": folder}) as engine,
        pytest.raises(AssayError, match='unknown adapter "other"'),
    ):
        engine.add_request(PROMPT, GREEDY, adapter="other")
    (module, (a, b)) = next(iter(factors.items()))
    wrong = write_adapter(tmp_path / "wrong", {module: (a[:, :-1], b)})
    with pytest.raises(InputError, match="outputs of"):
        Engine.load(files, NAME, adapters={"wrong": wrong})
    absent = write_adapter(tmp_path / "absent", {"model.layers.99.self_attn.q_proj": (a, b)})
    with pytest.raises(AssayError, match=r"layers\.99"):
        Engine.load(files, NAME, adapters={"absent": absent})
    head = write_adapter(tmp_path / "head", {"lm_head": (a, b)})
    with pytest.raises(AssayError, match="lm_head"):
        Engine.load(files, NAME, adapters={"head": head})
