"""Prompts that are neither a text nor token IDs are refused by name."""

from collections.abc import Iterator
from typing import Any

import pytest
from small_models import fixture_engine

from assay.engine import Engine, SamplingParams
from assay.errors import InputError

GREEDY = SamplingParams(max_tokens=2, temperature=0.0)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with fixture_engine("llama") as one:
        yield one


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (b"bytes", "prompts: expected a text or token IDs, got bytes"),
        (bytearray(b"bytes"), "prompts: expected a text or token IDs, got bytearray"),
        (memoryview(b"bytes"), "prompts: expected a text or token IDs, got memoryview"),
        ([b"bytes"], "prompt: expected a text or token IDs, got bytes"),
        (None, "prompts: expected a text or token IDs, got NoneType"),
        ([None], "prompt: expected a text or token IDs, got NoneType"),
        (5, "prompts: expected a text or token IDs, got int"),
        ({"text": 1}, "prompts: expected a text or token IDs, got dict"),
        ([[1, None]], "prompt: expected a text or token IDs, got None"),
    ],
)
def test_generate_names_what_it_got(engine: Engine, prompts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        engine.generate(prompts, GREEDY)
    assert ("decode" in str(caught.value.hint)) == message.endswith(("bytes", "array", "view"))
    assert not engine.has_work


@pytest.mark.parametrize("prompt", [b"bytes", None, 5])
def test_stream_names_what_it_got(engine: Engine, prompt: Any) -> None:
    with pytest.raises(InputError, match="prompt: expected a text or token IDs, got"):
        next(iter(engine.stream(prompt, GREEDY)))


def test_text_that_is_not_unicode() -> None:
    with Engine.load("synthetic") as engine:
        text = b"caf\xe9".decode("utf-8", "surrogateescape")
        with pytest.raises(InputError) as caught:
            engine.generate(text, GREEDY)
    assert caught.value.message == r"text: expected Unicode, got '\udce9' at character 4"
    assert caught.value.hint == "a part of it is not UTF-8"


def test_embedding_of_a_list_of_texts_says_to_give_one(engine: Engine) -> None:
    with pytest.raises(
        InputError, match="expected one text or its token IDs, got a list"
    ) as caught:
        engine.embed(["a"])  # type: ignore[arg-type]
    assert "the text itself" in str(caught.value.hint)
