"""The official OpenAI client against a real server."""

import asyncio
from collections.abc import Iterator

import httpx
import openai
import pytest
from fake_engine import CACHED, LOGPROB, FakeEngine, expected_text
from running_server import Running, Serving

from assay.engine.server import Limits


@pytest.fixture
def client(served: Running) -> Iterator[openai.OpenAI]:
    with make_client(served) as client:
        yield client


def make_client(served: Running, key: str = "none") -> openai.OpenAI:
    http = httpx.Client(trust_env=False)
    return openai.OpenAI(
        base_url=f"{served.url}/v1", api_key=key, http_client=http, max_retries=0, timeout=10
    )


def test_models_are_listed(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "fake"
    assert client.models.retrieve("fake").id == "fake"


def test_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt="abc", max_tokens=7)
    assert answer.choices[0].text == "ABCABCA"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 7, 10)


def test_completion_generates_sixteen_tokens_by_default(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt="abc")
    assert answer.choices[0].text == expected_text("abc", 16)


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("ab", ["ABAB"]),
        (["ab", "xyz"], ["ABAB", "XYZX"]),
        ([97, 98], ["ABAB"]),
        ([[97, 98], [120]], ["ABAB", "XXXX"]),
    ],
)
def test_prompts_of_every_kind(client: openai.OpenAI, prompt: object, texts: list[str]) -> None:
    answer = client.completions.create(model="fake", prompt=prompt, max_tokens=4)  # type: ignore[call-overload]
    assert [choice.text for choice in answer.choices] == texts
    assert [choice.index for choice in answer.choices] == list(range(len(texts)))


def test_several_choices_and_echo(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="fake", prompt=["ab", "c"], max_tokens=2, n=2, echo=True
    )
    assert [choice.text for choice in answer.choices] == ["abAB", "abAB", "cCC", "cCC"]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 2 * CACHED


def test_stop_string(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt="abc", max_tokens=50, stop=["C", "z"])
    assert answer.choices[0].text == "AB"
    assert answer.choices[0].finish_reason == "stop"


def test_completion_logprobs(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt="abc", max_tokens=3, logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens == ["A", "B", "C"]
    assert logprobs.token_logprobs == [LOGPROB] * 3
    assert logprobs.text_offset == [0, 1, 2]
    assert logprobs.top_logprobs is not None
    assert logprobs.top_logprobs[0] == {"A": LOGPROB, "B": LOGPROB - 1}


def test_completion_stream(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model="fake",
        prompt=["abc", "xy"],
        max_tokens=9,
        stream=True,
        stream_options={"include_usage": True},
    )
    texts = {0: "", 1: ""}
    reasons = {}
    usage = None
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
        usage = chunk.usage or usage
    assert texts == {0: expected_text("abc", 9), 1: expected_text("xy", 9)}
    assert reasons == {0: "length", 1: "length"}
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (5, 18)


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="fake",
        messages=[
            {"role": "developer", "content": "be"},
            {"role": "user", "content": [{"type": "text", "text": "kind"}]},
        ],
        max_completion_tokens=7,
        logprobs=True,
        top_logprobs=1,
    )
    (choice,) = answer.choices
    assert choice.message.content == "BE|KIND"
    assert choice.message.role == "assistant"
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert "".join(entry.token for entry in choice.logprobs.content) == "BE|KIND"
    assert choice.logprobs.content[0].top_logprobs[0].bytes == [ord("B")]


def test_chat_ends_at_the_eos_token(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "yes. no"}]
    )
    assert answer.choices[0].message.content == "YES"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


def test_chat_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="fake",
        messages=[{"role": "user", "content": "tell"}],
        max_tokens=10,
        n=2,
        stream=True,
    )
    chunks = list(stream)
    roles = [c.choices[0].delta.role for c in chunks if c.choices[0].delta.role]
    assert roles == ["assistant", "assistant"]
    for index in (0, 1):
        own = [c.choices[0] for c in chunks if c.choices[0].index == index]
        assert "".join(c.delta.content or "" for c in own) == expected_text("tell", 10)
        assert [c.finish_reason for c in own if c.finish_reason] == ["length"]


def test_async_client_streams_concurrently(served: Running) -> None:
    async def all_texts() -> list[str]:
        http = httpx.AsyncClient(trust_env=False)
        async with openai.AsyncOpenAI(
            base_url=f"{served.url}/v1", api_key="none", http_client=http, max_retries=0
        ) as client:

            async def one(letter: str) -> str:
                stream = await client.completions.create(
                    model="fake", prompt=letter, max_tokens=40, stream=True
                )
                return "".join([chunk.choices[0].text async for chunk in stream])

            return await asyncio.gather(*(one(letter) for letter in "abcdefgh"))

    assert asyncio.run(all_texts()) == [letter * 40 for letter in "ABCDEFGH"]


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ({"model": "other"}, openai.NotFoundError, "model_not_found"),
        ({"max_tokens": 600}, openai.BadRequestError, "context_length_exceeded"),
        ({"prompt": "a" * 600}, openai.BadRequestError, "context_length_exceeded"),
        ({"temperature": 9}, openai.BadRequestError, "invalid_value"),
        ({"suffix": "x"}, openai.BadRequestError, "unsupported_parameter"),
        ({"prompt": [1, 9999]}, openai.BadRequestError, None),
        ({"prompt": "refused"}, openai.BadRequestError, None),
    ],
)
def test_refusals_raise_the_matching_client_error(
    client: openai.OpenAI, options: dict[str, object], error: type[openai.APIStatusError], code: str
) -> None:
    for stream in (False, True):
        request = {"model": "fake", "prompt": "abc", "stream": stream, **options}
        with pytest.raises(error) as caught:
            client.completions.create(**request)  # type: ignore[call-overload]
        assert caught.value.code == code


def test_context_limit_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="context is 512 tokens: 600 in the prompt"):
        client.completions.create(model="fake", prompt="a" * 600)


def test_api_key_is_required(serving: Serving) -> None:
    served = serving(api_key="sesame")
    with make_client(served, "sesame") as right, make_client(served, "guess") as wrong:
        assert right.models.list().data
        with pytest.raises(openai.AuthenticationError):
            wrong.models.list()


def test_too_many_requests_is_a_rate_limit_error(serving: Serving) -> None:
    served = serving(FakeEngine(step_seconds=0.05), limits=Limits(requests=2))
    with make_client(served) as client:
        stream = client.completions.create(model="fake", prompt="a", max_tokens=400, stream=True)
        next(stream)
        with pytest.raises(openai.RateLimitError, match="1 requests are under way and 2 more"):
            client.completions.create(model="fake", prompt="a", n=2)
        stream.close()


def test_failed_engine_is_reported_and_refuses_requests(serving: Serving) -> None:
    engine = FakeEngine()
    engine.fails_at_step = 5
    served = serving(engine)
    with make_client(served) as client:
        stream = client.completions.create(model="fake", prompt="a", max_tokens=50, stream=True)
        with pytest.raises(openai.APIError, match="the engine failed"):
            list(stream)
        with pytest.raises(openai.InternalServerError, match="the engine failed") as caught:
            client.completions.create(model="fake", prompt="a")
        assert caught.value.status_code == 503
    assert httpx.get(f"{served.url}/health", trust_env=False).status_code == 503
