"""Queries, keys and values in different formats stay as stored: a product for each format."""

import math
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_conversion import write
from small_models import EXACT_CACHE

from assay.engine import Engine, SamplingParams
from assay.engine.loading import ModelFiles, open_model
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.loading.tensor_values import tensor_values
from assay.engine.models.layers import Attention
from chosen_device import NAME, cpu_only

CONFIG = {"num_hidden_layers": 3, "vocab_size": 96}
PROMPTS = [[5, 9, 17, 3], [41, 7], [60, 33, 12, 71, 28, 90, 4, 55]]
Q8_0, Q4_0, F16, Q4_K, Q6_K = (
    gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_0", "F16", "Q4_K", "Q6_K")
)
GREEDY = SamplingParams(max_tokens=10, temperature=0.0, ignore_eos=True)


def mixed(folder: Path, *, architecture: str = "llama", **formats: gguf.GGMLQuantizationType):
    """A file whose layers 0 and 1 have these formats, as Q4_K_M files have more bits in some."""
    path = folder / "mixed.gguf"
    stored = {
        f"blk.{layer}.attn_{name}.weight": kind
        for layer in range(2)
        for name, kind in formats.items()
    }
    write(path, synthetic_model(architecture, config=CONFIG), formats=stored)
    return open_model(path)


def dense(files: ModelFiles) -> ModelFiles:
    """The same values in float32."""
    from dataclasses import replace

    tensors = {}
    for name, tensor in files.tensors.items():
        values = np.ascontiguousarray(tensor_values(tensor), np.float32)
        data = memoryview(values.data).cast("B")
        tensors[name] = replace(tensor, format="f32", bytes=data)
    return replace(files, name=f"{files.name} dense", path=None, tensors=tensors)


def qkv_formats(engine: Engine) -> list[list[str]]:
    found = []
    for block in engine.model.blocks:
        assert isinstance(block.attention, Attention)
        linear = block.attention.qkv
        found.append([one.format for one in (linear.weights, *linear.rest)])
    return found


@cpu_only
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize(
    ("formats", "parts", "error"),
    [
        ({"q": F16, "v": F16}, ["f16", "f32", "f16"], 1e-5),
        ({"v": F16}, ["f32", "f16"], 1e-5),
        # Products with 8-bit blocks round activations to 8 bits, too.
        ({"q": F16, "k": F16, "v": Q8_0}, ["f16", "q8_0"], 2e-2),
        # As a Q4_K_M file has them.
        ({"q": Q4_K, "k": Q4_K, "v": Q6_K}, ["q4_k", "q6_k"], 2e-2),
    ],
)
def test_logits_and_tokens_are_those_of_the_values(
    architecture: str,
    formats: dict[str, gguf.GGMLQuantizationType],
    parts: list[str],
    error: float,
    tmp_path: Path,
) -> None:
    """Prefill, batches and single rows; Qwen2 has biases besides."""
    files = mixed(tmp_path, architecture=architecture, **formats)
    with Engine.load(dense(files), NAME, kv_format=EXACT_CACHE) as engine:
        logits = engine.logits(PROMPTS[2])
        tokens = [list(one.token_ids) for one in engine.generate(PROMPTS, GREEDY)]
    with Engine.load(files, NAME, kv_format=EXACT_CACHE) as engine:
        assert qkv_formats(engine) == [parts, parts, ["f32"]]
        assert not [note for note in engine.describe()["notes"] if "fused as" in note]
        got = engine.logits(PROMPTS[2])
        # A step of one row writes columns of it; one of three rows gathers them.
        alone = [list(engine.generate([one], GREEDY)[0].token_ids) for one in PROMPTS]
        together = [list(one.token_ids) for one in engine.generate(PROMPTS, GREEDY)]
        assert engine.degradations == [], "every step is captured"
    assert np.abs(got - logits).max() < error * np.abs(logits).max()
    assert alone == together
    if error < 1e-3:
        assert together == tokens


@cpu_only
def test_formats_whose_values_q8_0_holds_are_one_matrix(tmp_path: Path) -> None:
    """One product is faster than two, and nothing is lost."""
    with Engine.load(mixed(tmp_path, q=Q4_0, k=Q4_0, v=Q8_0)) as engine:
        assert qkv_formats(engine)[0] == ["q8_0"]


@cpu_only
def test_another_format_is_one_matrix(tmp_path: Path) -> None:
    with Engine.load(mixed(tmp_path, v=Q8_0), weight_format="f16") as engine:
        assert qkv_formats(engine)[0] == ["f16"]


@cpu_only
def test_fewer_bytes_are_read_than_when_fused(tmp_path: Path) -> None:
    """What a token reads is what the file has: 34 bytes for 32 values of Q8_0, two for one of F16."""
    files = mixed(tmp_path, q=Q8_0, k=Q8_0, v=F16)
    rows = {name: files.tensors[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "qkv"}
    with Engine.load(files) as engine:
        assert qkv_formats(engine)[0] == ["q8_0", "f16"]
        linear = engine.model.blocks[0].attention.qkv
        held = sum(one.nbytes for one in (linear.weights, *linear.rest))
        read = engine.describe()["streamed_bytes"]
    stored = sum(tensor.bytes.nbytes for tensor in rows.values())
    # Kernels pad panels of rows and add nothing else.
    assert stored <= held < 1.1 * stored
    fused = 2 * sum(math.prod(tensor.shape) for tensor in rows.values())
    with Engine.load(dense(files)) as engine:
        assert engine.describe()["streamed_bytes"] - read > 2 * 2 * (fused - stored)
