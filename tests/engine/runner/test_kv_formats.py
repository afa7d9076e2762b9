"""The engine with a KV cache of 8 bits: its memory, its outputs, and what else reads the cache."""

import numpy as np
import pytest

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import synthetic_model

PROMPT = "the quick brown fox jumps over the lazy dog " * 4
PARAMS = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)


@pytest.mark.parametrize(
    ("kv_format", "scale_bytes", "largest"),
    # Errors of rounding to 3 and 7 bits, beside bf16; tests of the operation itself are tight.
    [("fp8", 0, 1e-1), ("int8", 4, 2e-2)],
)
def test_half_the_memory_for_outputs_near_those_of_16_bits(
    kv_format: str, scale_bytes: int, largest: float
) -> None:
    files = synthetic_model(seed=3)
    with (
        Engine.load(files, kv_tokens=512) as plain,
        Engine.load(files, kv_tokens=512, kv_format=kv_format) as quantized,
    ):
        head = plain.model.shape.head_dim
        expected = (head + scale_bytes) / (2 * head)
        assert quantized.describe()["kv_bytes"] == expected * plain.describe()["kv_bytes"]
        wanted, got = plain.logits(PROMPT), quantized.logits(PROMPT)
        error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
        assert 0 < error < largest
        whole = quantized.generate([PROMPT], PARAMS)[0].token_ids
        # A cached prefix, and a change of format and back, give the tokens of a fresh cache.
        assert quantized.generate([PROMPT], PARAMS)[0].token_ids == whole
        undo = quantized.configure({"kv_format": "bf16"})
        assert quantized.generate([PROMPT], PARAMS)[0].token_ids == (
            plain.generate([PROMPT], PARAMS)[0].token_ids
        )
        undo()
        assert quantized.generate([PROMPT], PARAMS)[0].token_ids == whole


@pytest.mark.parametrize("kv_format", ["fp8", "int8"])
def test_snapshots_keep_elements_and_scales(kv_format: str) -> None:
    files = synthetic_model(seed=3)
    with Engine.load(files, kv_tokens=512, kv_format=kv_format) as first:
        tokens = first.generate([PROMPT], PARAMS)[0].token_ids
        snapshot = first.snapshot_kv_cache()
    with Engine.load(files, kv_tokens=512, kv_format=kv_format) as second:
        assert second.restore_kv_cache(snapshot) > 0
        assert second.generate([PROMPT], PARAMS)[0].token_ids == tokens
