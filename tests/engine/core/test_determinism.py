"""In deterministic mode an output does not depend on how it was computed, byte for byte."""

import numpy as np
import pytest
from small_models import FIXTURES, fixture_engine

from assay import ops
from assay.engine import SamplingParams
from chosen_device import blocks_of

FORMATS = ["file", "q8_0", "q4_1"]
PROMPTS = [[(7 * index + place * place) % 90 + 3 for place in range(30)] for index in range(5)]
REPEATING = [5, 6, 7, 8, 9] * 7


def params(index, **more):
    """Half of the requests draw by a seed, half take the best token."""
    return SamplingParams(
        max_tokens=16,
        temperature=1.2 if index % 2 else 0.0,
        seed=index,
        logprobs=0,
        ignore_eos=True,
        **more,
    )


def answers(name, prompts, *, together, **settings):
    """Tokens and exact log-probabilities of every prompt."""
    with fixture_engine(name, deterministic=True, prefix_caching=False, **settings) as engine:
        listed = [params(index) for index in range(len(prompts))]
        if together:
            completions = engine.generate(prompts, listed)
        else:
            completions = [
                engine.generate([prompt], chosen)[0]
                for prompt, chosen in zip(prompts, listed, strict=True)
            ]
        return [
            (one.token_ids, [np.float32(chunk.logprob).tobytes() for chunk in one.logprobs])
            for one in completions
        ]


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("weight_format", FORMATS)
def test_batched_single_chunked_and_speculative_agree(name, weight_format):
    prompts = [*PROMPTS, REPEATING]
    alone = answers(name, prompts, together=False, weight_format=weight_format)
    for settings in (
        {},
        {"token_budget": 7, "max_batch": 4},
        {"speculation_depth": 4},
        {"speculation_depth": 3, "token_budget": 9, "max_batch": 2},
        {"block_tokens": blocks_of(5)},
        {"max_batch": 3, "policy": "shortest", "kv_tokens": 112},
    ):
        got = answers(name, prompts, together=True, weight_format=weight_format, **settings)
        assert got == alone, settings


def test_a_row_that_is_alone_goes_the_way_of_rows_beside_others(monkeypatch):
    """A GPU has a kernel of its own for one new token of each sequence, which adds differently."""
    told = []
    attend = ops.paged_attention

    def watched(*arrays, **options):
        told.append(options["max_query_len"])
        return attend(*arrays, **options)

    monkeypatch.setattr(ops, "paged_attention", watched)
    with fixture_engine("llama", deterministic=True) as engine:
        engine.generate([[5]], params(0))
    assert told
    assert min(told) > 1


def test_guesses_are_made_and_some_are_right():
    with fixture_engine("llama", speculation_depth=4) as engine:
        greedy = SamplingParams(max_tokens=60, temperature=0.0, ignore_eos=True)
        engine.generate([REPEATING], greedy)
        counts = engine.statistics()
    assert 0 < counts["accepted_tokens"] <= counts["drafted_tokens"]
    assert counts["steps"] < 60


def test_a_prefix_from_the_cache_gives_the_same_bytes():
    prompt = PROMPTS[0] + PROMPTS[1]
    with fixture_engine("qwen3", deterministic=True) as engine:
        [first] = engine.generate([prompt], params(0))
        [again] = engine.generate([prompt], params(0))
    assert again.cached_tokens == 48
    assert again.token_ids == first.token_ids
    assert [c.logprob for c in again.logprobs] == [c.logprob for c in first.logprobs]
