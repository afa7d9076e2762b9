"""The indexer of sparse attention: it scores every token in the cache, and its time grows with them."""

import pytest

from assay.planner import BatchConfig, hardware_spec, model_spec, predict_graph

H200 = hardware_spec("h200_sxm")
BANDWIDTH = 4.8e12
LAYERS, KEY_BYTES, HEADS = (
    {"deepseek-v3.2": 61, "glm-5": 78},
    128,
    {"deepseek-v3.2": 64, "glm-5": 32},
)


def step(model: str, context: int, **batch: int) -> tuple[float, float]:
    """Expected time and floor in seconds on eight H200."""
    config = BatchConfig(context=context, tensor=8, weight_dtype="fp8", **batch)
    totals = predict_graph(model_spec(model), H200, config).totals
    return totals["step"].value / 1e9, totals["floor"].value / 1e9


@pytest.mark.parametrize("model", ["deepseek-v3.2", "glm-5"])
@pytest.mark.parametrize("sequences", [1, 16])
def test_decode_reads_an_index_key_of_every_token(model: str, sequences: int) -> None:
    """One FP8 key of 128 elements a token and layer, read once by every rank (DeepSeek-V3.2,
    sec. 2.1: the indexer computes in FP8); attention itself reads no more than 2,048 tokens."""
    short, long = 4_096, 150_000
    (before, floor_before), (after, floor_after) = (
        step(model, context, sequences=sequences) for context in (short, long)
    )
    keys = sequences * (long - short) * LAYERS[model]
    least = keys * KEY_BYTES / BANDWIDTH
    assert least <= floor_after - floor_before <= 1.2 * least
    assert after - before >= 0.7 * least
    assert after - before <= 2 * least


def test_dense_attention_grows_faster_than_the_indexer() -> None:
    sparse, dense = (
        step(model, 100_000, sequences=16)[0] - step(model, 4_096, sequences=16)[0]
        for model in ("deepseek-v3.2", "deepseek-v3")
    )
    assert 3 < dense / sparse < 20


def test_prompts_are_scored_against_every_token_before_them() -> None:
    """At 128 k tokens the FLOPs of scores, 2 x 64 x 128 for each pair, exceed those of attention
    to 2,048 tokens: they bound the step from below."""
    prompt, chunk = 131_072, 8_192
    expected, floor = step("deepseek-v3.2", 0, sequences=0, prefill_tokens=chunk, prompt=prompt)
    pairs = chunk * (prompt + chunk) / 2
    fp8_peak = 2 * 989.4e12
    assert floor >= 61 * 2 * HEADS["deepseek-v3.2"] * KEY_BYTES * pairs / fp8_peak
    assert expected > floor
