"""The n-gram pool and the Jacobi iteration of lookahead decoding."""

from small_models import fixture_engine

from assay.engine import SamplingParams
from assay.engine.requests.request import Request
from assay.engine.speculation.lookahead import MAX_KEYS, LookaheadProposer, NgramPool
from assay.engine.speculation.proposer import DraftWanted


def test_chains_join_ngrams_and_the_pool_stays_small():
    pool = NgramPool()
    pool.add([1, 2, 3, 4, 5, 6, 7])
    assert pool.chain(1, 6) == [2, 3, 4, 5, 6, 7]
    assert pool.chain(9, 4) == []
    pool.add(list(range(100, 100 + 2 * MAX_KEYS)))
    assert pool.chain(1, 2) == []
    assert pool.chain(100 + MAX_KEYS + 9, 1) == [100 + MAX_KEYS + 10]


def test_jacobi_iterations_find_ngrams_before_the_text_reaches_them():
    """Model: a linear congruential generator, whose tokens do not repeat within its period."""
    period = 128
    proposer = LookaheadProposer()
    request = Request.forward_only([7, 100, 31, 0])
    steps = 0
    while len(request.tokens) < period:
        [draft] = proposer.propose([DraftWanted(request, 4)])
        assert len(draft) == 4
        request.draft_tokens = draft
        sampled = [(5 * token + 3) % period for token in (request.tokens[-1], *draft)]
        proposer.observe(request, sampled)
        for guess, token in zip((*draft, None), sampled, strict=True):
            request.tokens.append(token)
            if guess != token:
                break
        steps += 1
    generated = request.tokens[3:period]
    assert len(set(generated)) == len(generated)
    assert steps < 0.8 * len(generated)


def test_a_text_without_repetition_of_the_prompt_has_accepted_guesses():
    options = {"speculation_depth": 6, "speculation_method": "lookahead"}
    with fixture_engine("llama", **options) as engine:
        greedy = SamplingParams(max_tokens=60, temperature=0.0, ignore_eos=True)
        engine.generate([[3]], greedy)
        counts = engine.statistics()
    assert 0 < counts["accepted_tokens"] < counts["drafted_tokens"]
    assert counts["steps"] < 60
