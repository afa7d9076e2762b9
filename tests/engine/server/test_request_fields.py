"""Fields that users of vLLM and OpenAI send: each works on a real engine, or is refused by name."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from encoder_folders import write_encoder
from running_server import Serving, running

from assay.engine import Encoder, Engine, SamplingParams
from assay.engine.core.logprobs import log_softmax
from assay.engine.loading.synthetic import synthetic_model, write_folder
from assay.engine.requests.beams import BeamSearch
from assay.engine.server import served_encoder, served_model

PROMPT = "Once upon"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine like the served one, for expected outputs."""
    with Engine.load("synthetic", max_batch=8) as one:
        yield one


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    engine = Engine.load("synthetic", max_batch=8)
    with (
        running(engine, model=served_model(engine, "m")) as served,
        httpx.Client(base_url=served.url, timeout=60, trust_env=False) as http,
    ):
        yield http


def completion(client: httpx.Client, **fields: Any) -> Any:
    body = {"model": "m", "prompt": PROMPT, "max_tokens": 6, "temperature": 0, **fields}
    return client.post("/v1/completions", json=body).json()


def refused(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    error: dict[str, Any] = completion(client, **fields)["error"]
    return error


def test_scores_of_the_prompt_are_those_of_its_logits(client: httpx.Client, engine: Engine) -> None:
    [choice] = completion(client, prompt_logprobs=2)["choices"]
    tokens = engine.files.tokenizer.encode(PROMPT)
    exact = log_softmax(engine.logits(tokens))
    first, *rest = choice["prompt_logprobs"]
    assert first is None
    assert len(rest) == len(tokens) - 1
    for at, entry in enumerate(rest):
        token, row = tokens[at + 1], exact[at]
        best = [int(index) for index in np.argsort(-row, kind="stable")[:2]]
        assert {int(key) for key in entry} == {token, *best}
        assert entry[str(token)]["logprob"] == pytest.approx(row[token], abs=1e-3)
        assert entry[str(token)]["rank"] == 1 + int((row > row[token]).sum())
        assert entry[str(best[0])]["rank"] == 1
    chat = {"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    answer = client.post("/v1/chat/completions", json={**chat, "prompt_logprobs": 0}).json()
    assert answer["prompt_logprobs"][0] is None
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    assert "prompt_logprobs" not in client.post("/v1/chat/completions", json=chat).json()
    assert refused(client, prompt_logprobs=1, stream=True)["param"] == "prompt_logprobs"


def test_best_of_returns_the_likeliest_sample(client: httpx.Client) -> None:
    sampling = {"temperature": 1.0, "seed": 5, "logprobs": 0}
    every = completion(client, n=4, **sampling)["choices"]
    means = [np.mean(choice["logprobs"]["token_logprobs"]) for choice in every]
    answer = completion(client, n=1, best_of=4, **sampling)
    [best] = answer["choices"]
    assert (best["index"], best["text"]) == (0, every[int(np.argmax(means))]["text"])
    assert answer["usage"]["completion_tokens"] == 24
    assert refused(client, n=3, best_of=2)["message"] == "best_of: expected at least n 3, got 2"
    assert refused(client, best_of=2, stream=True)["param"] == "best_of"


def test_beams_are_the_likeliest_of_all_continuations(engine: Engine, client: httpx.Client) -> None:
    """The oracle: with a width of the vocabulary nothing is cut, so that search is exhaustive."""
    vocabulary, length = 5, 3
    table = log_softmax(
        np.random.default_rng(1).standard_normal((vocabulary + 1, vocabulary)).astype(np.float32)
    )

    def likely(tokens: tuple[int, ...]) -> list[tuple[int, float]]:
        row = table[tokens[-1] if tokens else vocabulary]
        return sorted(enumerate(map(float, row)), key=lambda each: -each[1])

    search = BeamSearch([9], 125, frozenset(), length)
    while search.live:
        search.expand([likely(beam.tokens) for beam in search.live])
    scores = {
        tokens: sum(dict(likely(tokens[:at]))[token] for at, token in enumerate(tokens))
        for tokens in itertools.product(range(vocabulary), repeat=length)
    }
    expected = sorted(scores, key=lambda tokens: -scores[tokens])[:4]
    assert [tokens for tokens, _ in search.best(4)] == expected

    # A beam is at least as likely as what greedy decoding finds, and one beam is greedy decoding.
    greedy = completion(client)["choices"][0]["text"]
    assert completion(client, use_beam_search=True)["choices"][0]["text"] == greedy
    answer = completion(client, use_beam_search=True, n=3)
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(set(texts)) == 3
    assert answer["choices"][0]["finish_reason"] == "length"


def test_beams_that_end_are_kept() -> None:
    search = BeamSearch([1], 2, frozenset({0}), 4)
    search.expand([[(0, -0.1), (7, -2.5), (8, -3.0), (9, -4.0)]])
    search.expand([[(0, -0.1), (7, -9.0)], [(7, -8.0), (8, -9.0)]])
    assert search.best(2)[0] == ((), "stop")
    assert search.best(2)[1] == ((7,), "stop")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"use_beam_search": True, "stream": True}, "use_beam_search"),
        ({"use_beam_search": True, "stop": "a"}, "stop"),
        ({"use_beam_search": True, "logprobs": 1}, "logprobs"),
        ({"use_beam_search": True, "n": 11}, "n"),
        ({"length_penalty": 0.5}, "length_penalty"),
        ({"priority": 1}, "priority"),
        ({"suffix": "end"}, "suffix"),
        ({"min_tokens": 9}, None),
    ],
)
def test_fields_that_cannot_be_followed_are_refused(
    client: httpx.Client, fields: dict[str, Any], param: str | None
) -> None:
    assert refused(client, **fields)["param"] == param


def test_words_and_lengths(client: httpx.Client) -> None:
    text = completion(client, ignore_eos=True, skip_special_tokens=False)["choices"][0]["text"]
    word = text.strip()[:1]
    other = completion(client, ignore_eos=True, bad_words=[word])["choices"][0]["text"]
    assert word not in other
    answer = completion(client, min_tokens=6, stop_token_ids=list(range(65, 81)))
    assert answer["usage"]["completion_tokens"] == 6


def test_lower_priority_runs_first(serving: Serving) -> None:
    engine = Engine.load("synthetic", policy="priority")
    served = serving(engine, model=served_model(engine, "m"))
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        assert "choices" in completion(http, priority=-5)


def test_suffix_asks_for_the_middle(serving: Serving) -> None:
    engine = Engine.load("synthetic")
    seen: list[str] = []

    def encode(text: str) -> list[int]:
        seen.append(text)
        return engine.files.tokenizer.encode(text)

    markers = frozenset({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"})
    model = replace(served_model(engine, "m"), special_tokens=markers, encode=encode)
    with httpx.Client(base_url=serving(engine, model=model).url, trust_env=False) as http:
        assert "choices" in completion(http, prompt="def f(", suffix="return 1")
        assert refused(http, prompt=["a", "b"], suffix="c")["param"] == "suffix"
    assert seen == ["<fim_prefix>def f(<fim_suffix>return 1<fim_middle>"]


def test_sampling_of_the_checkpoint_is_the_default(serving: Serving, tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    (tmp_path / "generation_config.json").write_text(json.dumps({"temperature": 0.0}))
    engine = Engine.load(tmp_path)
    expected = Engine.load(tmp_path).generate(
        [PROMPT], SamplingParams(max_tokens=6, temperature=0.0)
    )
    served = serving(engine, model=served_model(engine, "m"))
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        for fields in ({"temperature": None}, {"temperature": None, "seed": 3}):
            assert completion(http, **fields)["choices"][0]["text"] == expected[0].text


def test_documents_are_ordered_by_the_cosine(serving: Serving, tmp_path: Path) -> None:
    encoder = Encoder.load(write_encoder(tmp_path))
    query, documents = "the cat", ["sat", "the cat", "unable cats"]
    vectors = encoder.embed_batch([query, *documents])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors[1:] @ vectors[0]
    served = serving(encoder, model=served_encoder(encoder, "e"))
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        body = {"model": "e", "query": query, "documents": documents}
        results = http.post("/v1/rerank", json=body).json()["results"]
        assert [each["index"] for each in results] == [int(at) for at in np.argsort(-cosines)]
        assert results[0]["document"] == {"text": "the cat"}
        assert results[0]["relevance_score"] == pytest.approx(1.0, abs=1e-6)
        short = {
            **body,
            "top_n": 1,
            "return_documents": False,
            "documents": [{"text": "sat"}, "the"],
        }
        [only] = http.post("/rerank", json=short).json()["results"]
        assert only["document"] is None
        pairs = {"model": "e", "text_1": query, "text_2": documents}
        data = http.post("/v1/score", json=pairs).json()["data"]
        assert [each["score"] for each in data] == pytest.approx(list(cosines), abs=1e-6)
        wrong = http.post("/v1/score", json={**pairs, "text_1": ["a", "b"]}).json()["error"]
        assert wrong["message"] == "text_2: expected 2 texts, as text_1 has, got 3"
        body = {"model": "e", "input": "the cat", "dimensions": 8}
        [short_vector] = http.post("/v1/embeddings", json=body).json()["data"]
        expected = vectors[0][:8] / np.linalg.norm(vectors[0][:8])
        assert short_vector["embedding"] == pytest.approx(list(expected), abs=1e-5)
        most = {**body, "dimensions": 4096}
        assert http.post("/v1/embeddings", json=most).json()["error"]["param"] == "dimensions"


@pytest.mark.parametrize(
    ("template", "effort", "expected"),
    [
        ("{{ reasoning_effort }}|{{ messages[0].content }}", "low", "low|Hi"),
        ("{{ enable_thinking }}|{{ messages[0].content }}", "none", "False|Hi"),
        ("{{ enable_thinking }}|{{ messages[0].content }}", "high", "True|Hi"),
        ("{{ messages[0].content }}", "low", None),
    ],
)
def test_reasoning_effort_is_a_variable_of_the_template(
    serving: Serving, template: str, effort: str, expected: str | None
) -> None:
    engine = Engine.load(replace(synthetic_model(), template_text=template))
    seen: list[str] = []
    model = served_model(engine, "m")
    encode = model.encode_rendered
    model = replace(model, encode_rendered=lambda text: (seen.append(text), encode(text))[1])
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
        "reasoning_effort": effort,
    }
    with httpx.Client(base_url=serving(engine, model=model).url, trust_env=False) as http:
        answer = http.post("/v1/chat/completions", json=body).json()
    assert seen == ([] if expected is None else [expected])
    assert ("error" in answer) == (expected is None)
