"""Echo with log-probabilities, embeddings, tokenization and CORS."""

import base64
import struct
from collections.abc import Iterator

import httpx
import openai
import pytest
from fake_engine import LOGPROB
from running_server import Running, Serving, running_engine

from assay.engine import Engine


@pytest.fixture
def client(served: Running) -> Iterator[openai.OpenAI]:
    http = httpx.Client(trust_env=False)
    url = f"{served.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", http_client=http, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("prompt", ["abc", [97, 98, 99]])
def test_echo_with_logprobs(client: openai.OpenAI, prompt: object) -> None:
    answer = client.completions.create(
        model="fake", prompt=prompt, max_tokens=2, echo=True, logprobs=1
    )  # type: ignore[call-overload]
    (choice,) = answer.choices
    assert choice.text == "abcAB"
    assert choice.logprobs.tokens == ["a", "b", "c", "A", "B"]
    assert choice.logprobs.token_logprobs == [None, *[LOGPROB] * 4]
    assert choice.logprobs.text_offset == [0, 1, 2, 3, 4]
    assert choice.logprobs.top_logprobs == [
        None,
        {"b": LOGPROB},
        {"c": LOGPROB},
        *({letter: LOGPROB} for letter in "AB"),
    ]


def test_echo_with_logprobs_in_a_stream(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model="fake", prompt=["ab", "c"], max_tokens=2, n=2, echo=True, logprobs=0, stream=True
    )
    tokens: dict[int, list[str]] = {index: [] for index in range(4)}
    for chunk in stream:
        for choice in chunk.choices:
            assert choice.logprobs is not None
            tokens[choice.index] += choice.logprobs.tokens or []
    assert tokens == {0: [*"abAB"], 1: [*"abAB"], 2: [*"cCC"], 3: [*"cCC"]}


def test_echoed_logprobs_of_an_engine_are_those_of_its_logits() -> None:
    with running_engine(Engine.load("synthetic")) as served:
        body = {
            "model": "model",
            "prompt": "abcdefghijklmnopqrst",
            "max_tokens": 1,
            "echo": True,
            "logprobs": 1,
            "temperature": 0,
        }
        answer = httpx.post(f"{served.url}/v1/completions", json=body, trust_env=False).json()
    logprobs = answer["choices"][0]["logprobs"]
    with Engine.load("synthetic") as engine:
        scored = engine.score("abcdefghijklmnopqrst", 1)
    assert logprobs["token_logprobs"][:-1] == pytest.approx(scored.logprobs)
    # The prompt begins with BOS.
    assert logprobs["tokens"][0] == "<|begin|>"
    assert len(logprobs["tokens"]) == 22


def test_embeddings(client: openai.OpenAI) -> None:
    # The official client asks for base64 and decodes it.
    answer = client.embeddings.create(model="fake", input=["ab", "abc"])
    assert [one.index for one in answer.data] == [0, 1]
    for one in answer.data:
        assert one.embedding == pytest.approx([0.6, 0.8])
    assert answer.usage.prompt_tokens == 5
    plain = client.embeddings.create(model="fake", input=[97, 98], encoding_format="float")
    assert plain.data[0].embedding == pytest.approx([0.6, 0.8])
    raw = client.embeddings.create(model="fake", input="ab", extra_body={"normalize": False})
    assert raw.data[0].embedding == [6.0, 8.0]


def test_embeddings_in_base64_are_little_endian_floats(http: httpx.Client) -> None:
    body = {"model": "fake", "input": "abc", "encoding_format": "base64"}
    answer = http.post("/v1/embeddings", json=body).json()
    data = base64.b64decode(answer["data"][0]["embedding"])
    assert struct.unpack("<2f", data) == pytest.approx((0.6, 0.8))


@pytest.mark.parametrize(
    "body",
    [
        {"model": "fake", "input": ""},
        {"model": "fake", "input": [999]},
        {"model": "fake", "input": "x" * 600},
        {"model": "fake", "input": "x", "dimensions": 3},
    ],
)
def test_embeddings_refused(http: httpx.Client, body: dict[str, object]) -> None:
    answer = http.post("/v1/embeddings", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in ("input", "dimensions")


def test_tokenize_and_back(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"prompt": "h\u00e9", "return_token_strs": True}).json()
    assert answer["tokens"] == [*"h\u00e9".encode()]
    assert (answer["count"], answer["max_model_len"]) == (3, 512)
    assert answer["token_strs"][0] == "h"
    text = http.post("/detokenize", json={"tokens": answer["tokens"]}).json()
    assert text == {"prompt": "h\u00e9"}
    messages = [{"role": "user", "content": "ab"}, {"role": "user", "content": "c"}]
    answer = http.post("/tokenize", json={"model": "fake", "messages": messages}).json()
    assert bytes(answer["tokens"]) == b"ab|c"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {}),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}),
        ("/tokenize", {"prompt": "a", "model": "other"}),
        (
            "/tokenize",
            {
                "messages": [{"role": "user", "content": "a"}],
                "chat_template_kwargs": {"messages": "b"},
            },
        ),
        ("/detokenize", {"tokens": [257]}),
    ],
)
def test_tokenize_refused(http: httpx.Client, path: str, body: dict[str, object]) -> None:
    assert http.post(path, json=body).status_code in (400, 404)


def test_origins_must_be_allowed(serving: Serving) -> None:
    origin = {"Origin": "http://localhost:3000"}
    preflight = {**origin, "Access-Control-Request-Method": "POST"}
    allowed = serving(allowed_origins=["http://localhost:3000"], api_key="sesame")
    closed = serving()
    for served, expected in ((allowed, "http://localhost:3000"), (closed, None)):
        answer = httpx.get(f"{served.url}/v1/models", headers=origin, trust_env=False)
        assert answer.headers.get("access-control-allow-origin") == expected
    url = f"{allowed.url}/v1/chat/completions"
    assert httpx.options(url, headers=preflight, trust_env=False).status_code == 200
    other = {**preflight, "Origin": "http://elsewhere"}
    assert httpx.options(url, headers=other, trust_env=False).status_code == 400
