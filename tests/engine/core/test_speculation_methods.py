"""Every method of speculation has the outputs of an engine that does not speculate."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import stats
from small_models import fixture_engine

from assay.engine import Engine, SamplingParams
from assay.engine.loading.synthetic import write_folder
from assay.engine.requests.structured_output import StructuredOutput
from assay.errors import InputError
from chosen_device import NAME

MODEL = "llama3"
METHODS = {
    "ngram": {},
    "lookahead": {},
    "draft_model": {"draft_weight_format": "q8_0"},
    "layer_skip": {"draft_layers": 1},
}
PROMPTS = [[(7 * index + position**2) % 90 + 3 for position in range(30)] for index in range(4)]
PROMPTS.append([5, 6, 7, 8, 9] * 7)
# A machine without the library of grammars still compares the other requests.
CONSTRAINT = StructuredOutput.regex("((AB)+C){9}") if find_spec("llguidance") else None
PARAMS = [
    SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True, logprobs=2),
    SamplingParams(max_tokens=20, temperature=1.1, seed=3, ignore_eos=True),
    SamplingParams(max_tokens=40, seed=4, structured_output=CONSTRAINT),
    SamplingParams(max_tokens=20, seed=5, presence_penalty=0.5, logit_bias={65: 3.0}),
    SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True),
]


def settings(method, depth=4):
    return {"speculation_depth": depth, "speculation_method": method, **METHODS[method]}


def outputs(engine, params=PARAMS):
    """Tokens, texts, reasons and exact log-probabilities of every prompt."""
    return [
        (
            one.token_ids,
            one.text,
            one.finish_reason,
            [chunk.logprob for chunk in one.logprobs or ()],
        )
        for one in engine.generate(PROMPTS, params)
    ]


@pytest.fixture(scope="module")
def plain():
    with fixture_engine(MODEL, deterministic=True) as engine:
        return outputs(engine)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "more",
    [
        {"kv_tokens": 1024},
        {"max_batch": 3, "token_budget": 9, "kv_tokens": 112, "policy": "shortest"},
    ],
    ids=["together", "few blocks"],
)
def test_outputs_are_those_of_the_plain_engine(plain, method, more):
    with fixture_engine(MODEL, deterministic=True, **settings(method), **more) as engine:
        assert outputs(engine) == plain
        counts = engine.statistics()
    assert 0 < counts["drafts"] <= counts["drafted_tokens"]
    assert counts["accepted_tokens"] > 0
    assert counts["used"] == 0


@pytest.mark.parametrize("method", METHODS)
def test_stop_strings_and_forks_are_those_of_the_plain_engine(plain, method):
    [_, text, *_] = plain[4]
    stop = text[6:9]
    params = SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True, stop=stop)
    with fixture_engine(MODEL, deterministic=True, **settings(method)) as engine:
        [stopped] = engine.generate([PROMPTS[4]], params)
        assert stopped.finish_reason == "stop"
        assert stopped.text == text[: text.index(stop)]
        name = engine.add_request(PROMPTS[0], PARAMS[0])
        found = {name: []}
        while engine.has_work:
            for output in engine.step():
                found[output.request_id] += output.token_ids
            if len(found) == 1 and len(found[name]) >= 6:
                copy = engine.fork(name)
                found[copy] = list(found[name])
        assert found[name] == found[copy] == list(plain[0][0])


def test_a_draft_with_the_same_weights_is_always_accepted():
    # Whether drafts pay is a matter of time, and not asked here.
    options = {
        "speculation_depth": 3,
        "speculation_method": "draft_model",
        "draft_policy": "always",
    }
    with fixture_engine("qwen3", kv_tokens=1024, **options) as engine:
        params = SamplingParams(max_tokens=25, temperature=0.9, seed=1, ignore_eos=True)
        engine.generate(PROMPTS, params)
        counts = engine.statistics()
    assert counts["accepted_tokens"] == counts["drafted_tokens"] > 0
    # 25 tokens are one of the prefill and 24 of steps that verify three.
    assert counts["steps"] == 1 + 24 // 4


def test_drafts_continue_when_the_cache_grows(monkeypatch):
    monkeypatch.setattr("assay.engine.core.engine_state.FIRST_KV_TOKENS", 64)
    params = SamplingParams(max_tokens=60, temperature=0.0, ignore_eos=True)
    with fixture_engine(MODEL, deterministic=True) as engine:
        expected = engine.generate(PROMPTS, params)
    for method in ("draft_model", "layer_skip"):
        with fixture_engine(MODEL, deterministic=True, **settings(method)) as engine:
            found = engine.generate(PROMPTS, params)
            assert engine.describe()["kv_bytes"] > 0
        assert [one.token_ids for one in found] == [one.token_ids for one in expected]


TOP_K = 3
NUM_TOKENS = 3
NUM_SAMPLES = 480


def exact_probabilities(engine, prompt):
    """The probability of each continuation, from the logits of the model."""
    found = {(): 1.0}
    for _ in range(NUM_TOKENS):
        found = {
            (*tokens, int(token)): before * share
            for tokens, before in found.items()
            for token, share in next_tokens(engine.logits([*prompt, *tokens])[-1])
        }
    return found


def next_tokens(logits):
    best = np.argsort(logits)[-TOP_K:]
    weights = np.exp(logits[best].astype(float) - logits.max())
    return zip(best, weights / weights.sum(), strict=True)


@pytest.mark.parametrize("method", ["draft_model", "layer_skip"])
def test_samples_have_the_distribution_of_the_model(method):
    """Chi-square test of whole continuations against exact probabilities."""
    prompt = PROMPTS[1][:8]
    options = {**settings(method, 2), "max_batch": 96, "kv_tokens": 4096}
    with fixture_engine(MODEL, **options) as engine:
        expected = exact_probabilities(engine, prompt)
        params = [
            SamplingParams(max_tokens=NUM_TOKENS, top_k=TOP_K, seed=seed, ignore_eos=True)
            for seed in range(NUM_SAMPLES)
        ]
        found = engine.generate([prompt] * NUM_SAMPLES, params)
        accepted = engine.statistics()["accepted_tokens"]
    counts = dict.fromkeys(expected, 0)
    for one in found:
        counts[tuple(one.token_ids)] += 1
    cells = sorted(expected, key=expected.get)
    # Cells of less than five expected samples are pooled.
    rare = [one for one in cells if NUM_SAMPLES * expected[one] < 5]
    groups = [rare, *([one] for one in cells if one not in rare)]
    shares = np.array([sum(expected[one] for one in group) for group in groups if group])
    seen = np.array([sum(counts[one] for one in group) for group in groups if group])
    assert accepted > 0
    assert len(seen) > 8
    assert stats.chisquare(seen, NUM_SAMPLES * shares).pvalue > 0.001


def test_a_smaller_model_drafts(tmp_path):
    write_folder(tmp_path, "llama", config={"num_hidden_layers": 1})
    params = SamplingParams(max_tokens=30, temperature=0.0, ignore_eos=True)
    with Engine.load("synthetic", NAME, deterministic=True) as engine:
        [expected] = engine.generate(["Once upon a time"], params)
        engine.configure({**settings("draft_model"), "draft_model": str(tmp_path)})
        [found] = engine.generate(["Once upon a time"], params)
        assert engine.statistics()["drafted_tokens"] > 0
    assert found.token_ids == expected.token_ids


def test_a_draft_model_with_other_tokens_is_refused(tmp_path):
    write_folder(tmp_path, "llama")
    file = tmp_path / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    words = tokenizer["model"]["vocab"]
    words["A"], words["B"] = words["B"], words["A"]
    file.write_text(json.dumps(tokenizer))
    with Engine.load("synthetic", NAME) as engine:
        with pytest.raises(InputError, match="draft_model: expected the tokens of"):
            engine.configure({**settings("draft_model"), "draft_model": str(tmp_path)})
        assert engine.settings.speculation_depth == 0
        assert engine.generate(["x"], SamplingParams(max_tokens=2))[0].token_ids


def test_more_draft_layers_than_the_model_has_are_refused():
    with pytest.raises(InputError, match="draft_layers: expected at most"):
        fixture_engine(
            MODEL, speculation_depth=2, speculation_method="layer_skip", draft_layers=999
        )


@pytest.mark.parametrize(
    ("first", "second"), [("ngram", "layer_skip"), ("draft_model", "lookahead")]
)
def test_methods_change_while_requests_run(plain, first, second):
    with fixture_engine(MODEL, deterministic=True, **settings(first)) as engine:
        name = engine.add_request(PROMPTS[4], PARAMS[4])
        tokens = []
        for _ in range(4):
            for output in engine.step():
                tokens += output.token_ids
        undo = engine.configure(settings(second))
        for _ in range(4):
            for output in engine.step():
                tokens += output.token_ids
        undo()
        while engine.has_work:
            for output in engine.step():
                assert output.request_id == name
                tokens += output.token_ids
    assert tokens == list(plain[4][0])
