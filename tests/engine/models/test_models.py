"""Every architecture against transformers, on small models with random weights.

`tests/data/make_engine_fixtures.py` made the models and the expected outputs of transformers.
"""

import numpy as np
import pytest
from small_models import EXACT_CACHE, FIXTURES, expected, fixture_engine

from chosen_device import ON_GPU, cpu_only

# Largest absolute difference of any logit from transformers in float32; logits are of order 1.
# The files hold bfloat16 weights that f16 and f32 represent exactly, so no format rounds them.
# On a GPU activations and the cache are bfloat16, with a relative error of up to 2**-9.
LARGEST_ERROR = dict.fromkeys(("file", "f32", "f16"), 0.1 if ON_GPU else 5e-6)


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("weight_format", LARGEST_ERROR)
def test_logits_match_transformers(name, weight_format):
    tokens, logits, _ = expected(name)
    with fixture_engine(name, weight_format=weight_format, kv_format=EXACT_CACHE) as engine:
        got = engine.logits(tokens)
    assert got.shape == logits.shape
    assert np.abs(got - logits).max() < LARGEST_ERROR[weight_format]


@cpu_only
@pytest.mark.parametrize("name", FIXTURES)
def test_bfloat16_cache_has_a_small_error(name):
    tokens, logits, _ = expected(name)
    with fixture_engine(name, kv_format="bf16") as engine:
        got = engine.logits(tokens)
    error = np.abs(got - logits)
    assert 0 < error.max() < 0.02
    assert error.mean() < 0.002


@pytest.mark.parametrize("name", FIXTURES)
def test_greedy_tokens_match_transformers(name):
    tokens, _, greedy = expected(name)
    with fixture_engine(name, kv_format=EXACT_CACHE) as engine:
        [answer] = engine.generate([tokens], greedy_params(len(greedy)))
    output = list(answer.token_ids)
    if not ON_GPU or output == greedy:
        assert output == greedy
        return
    # Rounding may swap two likely tokens, after which the texts diverge.
    with fixture_engine(name, "cpu", kv_format="f32") as exact:
        logits = exact.logits([*tokens, *output])[len(tokens) - 1 : -1]
    chosen = logits[np.arange(len(output)), output]
    assert (logits.max(axis=1) - chosen).max() < 2 * LARGEST_ERROR["file"]


def greedy_params(count):
    from assay.engine import SamplingParams

    return SamplingParams(max_tokens=count, temperature=0.0, ignore_eos=True)


@pytest.mark.parametrize(
    ("weight_format", "largest_divergence"),
    [("q8_0", 1e-3), ("int8", 2e-3), ("q4_1", 0.05), ("q4_0", 0.15)],
)
def test_quantized_weights_stay_within_the_stated_kl_divergence(weight_format, largest_divergence):
    tokens, logits, _ = expected("llama")
    with fixture_engine("llama", weight_format=weight_format) as engine:
        got = engine.logits(tokens)
    divergence = kl_divergence(logits, got).mean()
    assert 0 < divergence < largest_divergence


def kl_divergence(reference, other):
    """KL divergence of each row, in nats."""

    def log_softmax(rows):
        rows = rows.astype(np.float64)
        shifted = rows - rows.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))

    p, q = log_softmax(reference), log_softmax(other)
    return (np.exp(p) * (p - q)).sum(axis=1)
