"""Log-probabilities and embeddings of prompts, beside the logits that transformers computed."""

import numpy as np
import pytest
from small_models import EXACT_CACHE, FIXTURES, expected, fixture_engine, fixture_files

from assay.engine import SamplingParams
from chosen_device import ON_GPU

TOLERANCE = 0.1 if ON_GPU else 2e-4


def log_softmax(logits):
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("name", FIXTURES)
def test_scores_are_those_of_transformers(name):
    tokens, logits, _ = expected(name)
    exact = log_softmax(logits)
    with fixture_engine(name, kv_format=EXACT_CACHE, weight_format="f32", max_batch=3) as engine:
        scored = engine.score(tokens, 4)
    assert scored.logprobs[0] is None
    assert scored.top[0] == ()
    found = scored.logprobs[1:]
    assert found == pytest.approx(exact[np.arange(len(tokens) - 1), tokens[1:]], abs=TOLERANCE)
    if ON_GPU:
        return
    for row, top in zip(exact, scored.top[1:], strict=False):
        assert [token for token, _ in top] == np.argsort(-row, kind="stable")[:4].tolist()


@pytest.mark.parametrize("name", [one for one in FIXTURES if "gpt2" not in one][:3])
def test_the_head_makes_logits_of_embeddings(name):
    tokens, logits, _ = expected(name)
    tensors = fixture_files(name).tensors
    head = tensors.get("lm_head.weight") or tensors["model.embed_tokens.weight"]
    for budget in (5, 512):
        with fixture_engine(
            name, kv_format=EXACT_CACHE, weight_format="f32", max_batch=2, token_budget=budget
        ) as engine:
            embedding = engine.embed(tokens)
        assert embedding.shape == (head.shape[1],)
        found = head.to_float32() @ embedding
        assert found == pytest.approx(logits[-1], abs=0.1 if ON_GPU else 1e-3)


def test_other_requests_continue_beside_them():
    name = next(one for one in FIXTURES if "llama" in one)
    tokens, _, greedy = expected(name)
    params = SamplingParams(max_tokens=len(greedy), temperature=0.0, ignore_eos=True)
    with fixture_engine(name, kv_format=EXACT_CACHE, weight_format="f32", overlap="on") as engine:
        request = engine.add_request(tokens, params)
        found = []
        while engine.has_work:
            engine.score(tokens[:5])
            engine.embed(tokens[:5])
            found += [token for output in engine.step() for token in output.token_ids]
    assert request
    assert found == greedy
