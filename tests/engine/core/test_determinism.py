"""Deterministic mode: outputs are batch-invariant, byte for byte."""

import numpy as np
import pytest
from small_models import FIXTURES, fixture_engine

from assay import ops
from assay.engine import SamplingParams
from chosen_device import kv_block_size

FORMATS = ["file", "q8_0", "q4_1"]
PROMPTS = [[(7 * index + position**2) % 90 + 3 for position in range(30)] for index in range(5)]
REPEATING = [5, 6, 7, 8, 9] * 7


def params(index, **more):
    """Half of the requests sample with a seed, half are greedy."""
    return SamplingParams(
        max_tokens=16,
        temperature=1.2 if index % 2 else 0.0,
        seed=index,
        logprobs=0,
        ignore_eos=True,
        **more,
    )


def outputs(name, prompts, *, together, **settings):
    """Tokens and exact log-probabilities of every prompt."""
    with fixture_engine(name, deterministic=True, prefix_caching=False, **settings) as engine:
        params_list = [params(index) for index in range(len(prompts))]
        if together:
            completions = engine.generate(prompts, params_list)
        else:
            completions = [
                engine.generate([prompt], prompt_params)[0]
                for prompt, prompt_params in zip(prompts, params_list, strict=True)
            ]
        return [
            (one.token_ids, [np.float32(chunk.logprob).tobytes() for chunk in one.logprobs])
            for one in completions
        ]


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("weight_format", FORMATS)
def test_batched_chunked_and_speculative_outputs_equal_single_ones(name, weight_format):
    prompts = [*PROMPTS, REPEATING]
    alone = outputs(name, prompts, together=False, weight_format=weight_format)
    for settings in (
        {},
        {"token_budget": 7, "max_batch": 4},
        {"speculation_depth": 4},
        {"speculation_depth": 3, "token_budget": 9, "max_batch": 2},
        {"block_tokens": kv_block_size(5)},
        {"max_batch": 3, "policy": "shortest", "kv_tokens": 112},
    ):
        got = outputs(name, prompts, together=True, weight_format=weight_format, **settings)
        assert got == alone, settings


def test_single_row_uses_the_prefill_attention_kernel(monkeypatch):
    """The decode attention kernel of a GPU sums in another order."""
    query_lengths = []
    paged_attention = ops.paged_attention

    def watched(*arrays, **options):
        query_lengths.append(options["max_query_len"])
        return paged_attention(*arrays, **options)

    monkeypatch.setattr(ops, "paged_attention", watched)
    with fixture_engine("llama", deterministic=True) as engine:
        engine.generate([[5]], params(0))
    assert query_lengths
    assert min(query_lengths) > 1


def test_draft_tokens_are_proposed_and_some_accepted():
    with fixture_engine("llama", speculation_depth=4) as engine:
        greedy = SamplingParams(max_tokens=60, temperature=0.0, ignore_eos=True)
        engine.generate([REPEATING], greedy)
        counts = engine.statistics()
    assert 0 < counts["accepted_tokens"] <= counts["drafted_tokens"]
    assert counts["steps"] < 60


def test_cached_prefix_gives_the_same_bytes():
    prompt = PROMPTS[0] + PROMPTS[1]
    with fixture_engine("qwen3", deterministic=True) as engine:
        [first] = engine.generate([prompt], params(0))
        [again] = engine.generate([prompt], params(0))
    assert again.cached_tokens == 48
    assert again.token_ids == first.token_ids
    assert [c.logprob for c in again.logprobs] == [c.logprob for c in first.logprobs]
