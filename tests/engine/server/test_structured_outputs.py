"""Structured output over HTTP: OpenAI's names through the official client, vLLM's beside them."""

import json
from collections.abc import Iterator

import httpx
import jsonschema_rs
import openai
import pytest
from running_server import Running, running_engine

from assay.engine import Engine

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "year": {"type": "integer", "maximum": 99}},
    "required": ["city", "year"],
    "additionalProperties": False,
}
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
MESSAGES = [{"role": "user", "content": "Where?"}]


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_engine(Engine.load("synthetic")) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[openai.OpenAI]:
    http = httpx.Client(trust_env=False)
    url = f"{served.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", http_client=http, max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, **options: object) -> openai.types.chat.ChatCompletion:
    return client.chat.completions.create(
        model="model", messages=MESSAGES, max_tokens=400, seed=1, **options
    )  # type: ignore[call-overload,no-any-return]


def test_json_schema(client: openai.OpenAI) -> None:
    answer = chat(client, response_format=SCHEMA_FORMAT, n=2, logprobs=True, top_logprobs=3)
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        jsonschema_rs.validate(SCHEMA, json.loads(choice.message.content or ""))
        assert choice.logprobs is not None
        # Masked alternatives have the log-probability that stands for minus infinity.
        alternatives = [
            t.logprob for one in choice.logprobs.content or [] for t in one.top_logprobs
        ]
        assert min(alternatives) == -9999.0


def test_json_schema_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="model",
        messages=MESSAGES,  # type: ignore[arg-type]
        response_format=SCHEMA_FORMAT,  # type: ignore[arg-type]
        max_tokens=400,
        stream=True,
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    jsonschema_rs.validate(SCHEMA, json.loads(text))


def test_json_object_and_text(client: openai.OpenAI) -> None:
    answer = chat(client, response_format={"type": "json_object"}, logit_bias={ord("}"): 100})
    assert json.loads(answer.choices[0].message.content or "") == {}
    assert chat(client, response_format={"type": "text"}).choices[0].message.content


@pytest.mark.parametrize(
    "options",
    [
        {"structured_outputs": {"choice": ["one", "two"]}},
        {"structured_outputs": {"regex": "one|two"}},
        {"structured_outputs": {"grammar": 'start: "one" | "two"'}},
        {"structured_outputs": {"json": {"enum": [1, 2]}, "disable_any_whitespace": True}},
        {"structured_outputs": {"json": '{"enum": [1, 2]}', "whitespace_pattern": "[ ]?"}},
        {"guided_choice": ["one", "two"], "guided_decoding_backend": "guidance"},
        {"guided_regex": "one|two"},
        {"guided_grammar": 'root ::= "one" | "two"'},
        {"guided_json": {"enum": [1, 2]}, "guided_whitespace_pattern": ""},
    ],
)
def test_names_of_vllm(client: openai.OpenAI, options: dict[str, object]) -> None:
    body = {"model": "model", "prompt": "q", "max_tokens": 30}
    answer = client.completions.create(**body, extra_body=options)  # type: ignore[call-overload]
    assert answer.choices[0].text.strip() in ("one", "two", "1", "2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guided_regex": "("}, "unclosed group"),
        ({"guided_json": {"uniqueItems": True}}, "uniqueItems"),
        ({"guided_json": "{"}, "JSON schema"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "give one of them"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structural_tag: this server"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals(
    client: openai.OpenAI, options: dict[str, object], message: str, stream: bool
) -> None:
    body = {"model": "model", "prompt": "q", "stream": stream}
    with pytest.raises(openai.BadRequestError, match=message):
        client.completions.create(**body, extra_body=options)  # type: ignore[call-overload]


def test_logit_bias(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="model", prompt="q", max_tokens=5, logit_bias={str(ord("Z")): 100}
    )
    assert answer.choices[0].text == "ZZZZZ"
