"""FLOPs of a prompt, against the published parameter count of a model."""

import pytest

from assay.bench.suites.prefill_gpu import prefill_flops
from assay.engine.models.model_shape import ExpertShape, ModelShape

LLAMA_3_8B = ModelShape(
    vocabulary=128_256, hidden=4096, inner=14_336, layers=32, heads=32, kv_heads=8, head_dim=128,
    context=8192,
)  # fmt: skip
PARAMETERS = 8_030_261_248
"""As its model card counts them."""
NORMS = (2 * 32 + 1) * 4096
EMBEDDING = HEAD = 128_256 * 4096


def test_one_token_multiplies_every_gemm_parameter_once() -> None:
    attention = 32 * 4 * 32 * 128
    multiplied = PARAMETERS - EMBEDDING - NORMS
    assert prefill_flops(LLAMA_3_8B, 1) == pytest.approx(2 * multiplied + attention, rel=1e-12)


def test_attention_grows_quadratically_and_logits_are_of_one_row() -> None:
    two, four = prefill_flops(LLAMA_3_8B, 2048), prefill_flops(LLAMA_3_8B, 4096)
    pairs = 4096 * 4097 // 2 - 2 * (2048 * 2049 // 2)
    expected = 32 * 4 * 32 * 128 * pairs - 2 * HEAD
    assert four - 2 * two == pytest.approx(expected, rel=1e-12)


def test_mixture_of_experts_multiplies_the_active_parameters() -> None:
    # Qwen3-30B-A3B: its model card counts 3.3 billion activated parameters.
    shape = ModelShape(
        vocabulary=151_936, hidden=2048, inner=0, layers=48, heads=32, kv_heads=4, head_dim=128,
        context=40_960, experts=ExpertShape(128, 8, 768, shared=False),
    )  # fmt: skip
    embedding = 151_936 * 2048
    attention = 48 * 4 * 32 * 128
    active = (prefill_flops(shape, 1) - attention) / 2 + embedding
    assert active == pytest.approx(3.3e9, rel=0.02)
