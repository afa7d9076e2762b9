"""LoRA adapters: those of NumPy-merged weights, alone and mixed in a batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lora_folders import factors_of, merged, write_adapter
from small_models import EXACT_CACHE, fixture_files

from assay.engine import Engine, SamplingParams
from assay.engine.loading import ModelFiles
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.requests.outputs import Chunk
from assay.errors import AssayError, InputError
from chosen_device import NAME, ON_GPU

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")
PROMPT = [3, 17, 5, 90, 41, 8, 77, 2, 60, 33, 12]
GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
TOLERANCE = 1e-5
"""Relative to the largest logit, in float32."""
BF16_RATIO = 1.5
"""Errors of adapters in bfloat16, relative to those of merged weights in bfloat16."""


def error(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def assert_merged(adapted: np.ndarray, merged_files: ModelFiles) -> np.ndarray:
    """Compare logits with those of merged weights, and return the latter.

    The reference is the CPU in float32. A GPU rounds to bfloat16 in every layer: there an adapter
    has to be about as close to it as the merged weights are.
    """
    with Engine.load(merged_files, "cpu", kv_format="f32") as engine:
        expected = engine.logits(PROMPT)
    if not ON_GPU:
        assert error(adapted, expected) < TOLERANCE
        return expected
    with Engine.load(merged_files, NAME, kv_format=EXACT_CACHE) as engine:
        rounded = engine.logits(PROMPT)
    own, others = (float(np.linalg.norm(one - expected)) for one in (adapted, rounded))
    print(f"adapter {own:.4f}, merged {others:.4f} of {np.linalg.norm(expected):.2f}")
    assert own < BF16_RATIO * others
    return expected


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
    expected = assert_merged(adapted, merged(files, factors, 8 / 4))
    np.testing.assert_array_equal(plain, without)
    assert error(plain, expected) > 0.1, "the adapter changes something"


def test_rows_in_the_order_of_a_gguf_file(tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ATTENTION, rank=4, seed=8)
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
    assert_merged(adapted, merged(files, factors, 2.0))


def test_rank_stabilized_scale(tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ("q_proj", "down_proj"), rank=4, seed=2)
    folder = write_adapter(tmp_path / "adapter", factors, use_rslora=True, lora_alpha=3)
    with Engine.load(files, NAME, adapters={"tuned": folder}, kv_format=EXACT_CACHE) as engine:
        adapted = engine.logits(PROMPT, "tuned")
    assert_merged(adapted, merged(files, factors, 3 / 2))


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


@pytest.mark.parametrize("requests", [3, 12] if ON_GPU else [3])
def test_decode_agrees_with_the_forward_pass_of_the_whole_text(
    tmp_path: Path, requests: int
) -> None:
    # Wide enough for every grouped GEMM of GPUs: the GEMV, the small-M and the tiled one.
    files = synthetic_model(config={"hidden_size": 1024 if ON_GPU else 256})
    folders = {
        name: write_adapter(
            tmp_path / name, factors_of(files, (*ATTENTION, *MLP), rank=rank, seed=rank)
        )
        for name, rank in (("first", 8), ("second", 16))
    }
    names = [("first", None, "second")[index % 3] for index in range(requests)]
    params = replace(GREEDY, logprobs=1)
    with Engine.load(files, NAME, adapters=folders, kv_format=EXACT_CACHE) as engine:
        chunks: dict[str, list[Chunk]] = {}
        for index, name in enumerate(names):
            chunks[engine.add_request([*PROMPT, index], params, adapter=name)] = []
        while engine.has_work:
            for output in engine.step():
                chunks[output.request_id] += output.chunks
        for index, (name, found) in enumerate(zip(names, chunks.values(), strict=True)):
            tokens = [chunk.token_id for chunk in found]
            text = [*PROMPT, index, *tokens]
            scored = engine.score(text, adapter=name).logprobs[-len(tokens) :]
            worst = max(abs(chunk.logprob - one) for chunk, one in zip(found, scored, strict=True))
            assert worst < (0.1 if ON_GPU else 1e-4)
            other = engine.score(text, adapter="second" if name != "second" else None)
            assert max(map(abs, np.subtract(other.logprobs[-len(tokens) :], scored))) > 0.3


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


def test_adapters_are_refused_before_weights_are_loaded(tmp_path: Path) -> None:
    files = fixture_files("llama")
    (module, (a, b)) = next(iter(factors_of(files, ("q_proj",), rank=4, seed=7).items()))
    wrong = write_adapter(tmp_path / "wrong", {module: (a[:, :-1], b)})
    without_weights = replace(files, tensors={}, path=None)
    with pytest.raises(InputError, match="outputs of"):
        Engine.load(without_weights, NAME, adapters={"wrong": wrong})


def test_adapters_come_and_go(tmp_path: Path) -> None:
    files = fixture_files("llama")
    folders = {
        name: write_adapter(
            tmp_path / name, factors_of(files, (*ATTENTION, *MLP), rank=rank, seed=rank)
        )
        for name, rank in (("first", 4), ("second", 9))
    }
    expected = {}
    for name, folder in folders.items():
        with Engine.load(files, NAME, adapters={name: folder}, deterministic=True) as engine:
            expected[name] = engine.generate([PROMPT * 4], GREEDY, adapter=name)[0].token_ids
            plain = engine.generate([PROMPT * 4], GREEDY)[0].token_ids
    assert len({plain, *expected.values()}) == 3
    with Engine.load(files, NAME, deterministic=True, block_tokens=16) as engine:
        running = engine.add_request(PROMPT * 4, GREEDY)
        tokens = list(engine.step()[0].token_ids)
        engine.load_adapter("first", folders["first"])
        with pytest.raises(InputError, match="expected a name that is free"):
            engine.load_adapter("first", folders["second"])
        adapted = engine.add_request(PROMPT * 4, GREEDY, adapter="first")
        found: dict[str, list[int]] = {running: tokens, adapted: []}
        with pytest.raises(InputError, match="expected no requests that use it, got 1"):
            engine.unload_adapter("first")
        while engine.has_work:
            for output in engine.step():
                found[output.request_id] += output.token_ids
        assert tuple(found[running]) == plain
        assert tuple(found[adapted]) == expected["first"]
        engine.unload_adapter("first")
        assert engine.adapters == []
        with pytest.raises(AssayError, match='unknown adapter "first"'):
            engine.add_request(PROMPT, GREEDY, adapter="first")
        # It takes the place of the first, of whose blocks it must find none.
        engine.load_adapter("second", folders["second"])
        [answer] = engine.generate([PROMPT * 4], GREEDY, adapter="second")
        assert answer.token_ids == expected["second"]
        assert answer.cached_tokens == 0
        assert engine.generate([PROMPT * 4], GREEDY)[0].token_ids == plain


def test_an_adapter_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    files = fixture_files("llama")
    factors = factors_of(files, ("q_proj",), rank=4, seed=7)
    (module, (a, b)) = next(iter(factors.items()))
    right = write_adapter(tmp_path / "right", factors)
    wrong = write_adapter(tmp_path / "wrong", {module: (a[:, :-1], b)})
    with Engine.load(files, NAME, adapters={"right": right}, deterministic=True) as engine:
        before = engine.generate([PROMPT], GREEDY, adapter="right")[0].token_ids
        with pytest.raises(InputError, match="outputs of"):
            engine.load_adapter("wrong", wrong)
        assert engine.adapters == ["right"]
        assert engine.generate([PROMPT], GREEDY, adapter="right")[0].token_ids == before
