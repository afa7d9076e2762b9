"""gpt-oss over chat: channels become reasoning, text and calls."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from scripted_server import scripted

from assay.cli.app import run
from assay.engine.requests.harmony import HarmonyParser, Part
from assay.engine.server.reasoning import HARMONY, recognized
from assay.engine.server.tools import FAMILIES, recognized as recognized_tools

THOUGHT = "<|channel|>analysis<|message|>User greets.<|end|>"
NEXT = "<|start|>assistant"
ANSWER = f"{THOUGHT}{NEXT}<|channel|>final<|message|>Hello!"
CALL = (
    f"{THOUGHT}{NEXT}<|channel|>commentary<|message|>Let me look.<|end|>"
    f'{NEXT}<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{{"city": "Rome"}}'
)
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object"}},
}
TEMPLATE = (
    "<|start|>{{ messages[0].content }}<|message|><|channel|>{{ tools }}{{ reasoning_effort }}"
)


def parse(text: str, size: int, prompt: str = "") -> list[Part]:
    """The parts of a text that arrives in pieces, equal kinds joined."""
    parser = HarmonyParser(prompt)
    parts = [part for at in range(0, len(text), size) for part in parser.push(text[at : at + size])]
    joined: list[Part] = []
    for kind, piece in [*parts, *parser.finish()]:
        if joined and joined[-1].kind == kind != "call":
            joined[-1] = Part(kind, joined[-1].text + piece)
        else:
            joined.append(Part(kind, piece))
    return joined


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ANSWER, [("thought", "User greets."), ("content", "Hello!")]),
        (f"{ANSWER}<|return|>", [("thought", "User greets."), ("content", "Hello!")]),
        (
            CALL,
            [
                ("thought", "User greets."),
                ("content", "Let me look."),
                ("call", "get_weather"),
                ("arguments", '{"city": "Rome"}'),
            ],
        ),
        (
            " to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
            [("call", "now"), ("arguments", "{}")],
        ),
        ("<|channel|>analysis to=python code<|message|>1 < 2", [("thought", "1 < 2")]),
        ("<|channel|>final<|message|>a <|b <|en", [("content", "a <|b <|en")]),
        ("no format at all", [("content", "no format at all")]),
        ("<|channel|>anal", []),
    ],
)  # fmt: skip
def test_parts_of_an_output(size: int, text: str, expected: list[tuple[str, str]]) -> None:
    assert parse(text, size) == [Part(*part) for part in expected]  # type: ignore[arg-type]


def test_message_that_the_prompt_began() -> None:
    prompt = f"<|start|>user<|message|>Hi<|end|>{NEXT}<|channel|>final<|message|>He"
    assert parse("llo", 1, prompt) == [Part("content", "llo")]
    assert parse(ANSWER, 5, f"<|start|>user<|message|>Hi<|end|>{NEXT}")[1] == Part(
        "content", "Hello!"
    )


def test_template_of_gpt_oss_is_recognized() -> None:
    assert recognized(TEMPLATE) is HARMONY
    assert recognized_tools(TEMPLATE) is FAMILIES["openai"]
    assert recognized("<|im_start|>{{ messages }}") is None


@pytest.fixture
def answering() -> Iterator[openai.OpenAI]:
    with scripted(ANSWER, reasoning=HARMONY, tool_family=FAMILIES["openai"]) as client:
        yield client


def ask(client: openai.OpenAI, **options: Any) -> Any:
    messages = [{"role": "user", "content": "Hi"}]
    return client.chat.completions.create(model="fake", messages=messages, **options)  # type: ignore[arg-type]


def test_chat_has_reasoning_and_content(answering: openai.OpenAI) -> None:
    message = ask(answering).choices[0].message
    assert (message.content, message.reasoning_content) == ("Hello!", "User greets.")
    hidden = ask(answering, extra_body={"include_reasoning": False}).choices[0].message
    assert hidden.reasoning_content is None
    deltas = [chunk.choices[0].delta for chunk in ask(answering, stream=True) if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Hello!"
    thoughts = [getattr(delta, "reasoning_content", None) or "" for delta in deltas]
    assert "".join(thoughts) == "User greets."
    response = answering.responses.create(model="fake", input="Hi")
    assert response.output_text == "Hello!"


@pytest.mark.parametrize("stream", [False, True])
def test_chat_calls_tools(stream: bool) -> None:
    with scripted(CALL, reasoning=HARMONY, tool_family=FAMILIES["openai"]) as client:
        if stream:
            chunks = [chunk.choices[0] for chunk in ask(client, tools=[WEATHER], stream=True)]
            calls = [call for chunk in chunks for call in chunk.delta.tool_calls or ()]
            assert calls[0].function.name == "get_weather"
            arguments = "".join(call.function.arguments or "" for call in calls)
            assert json.loads(arguments) == {"city": "Rome"}
            assert chunks[-1].finish_reason == "tool_calls"
            return
        choice = ask(client, tools=[WEATHER]).choices[0]
        [call] = choice.message.tool_calls
        assert (call.function.name, choice.finish_reason) == ("get_weather", "tool_calls")
        assert json.loads(call.function.arguments) == {"city": "Rome"}
        assert choice.message.content == "Let me look."
        assert choice.message.reasoning_content == "User greets."


def test_reasoning_goes_back_to_the_template() -> None:
    seen: list[Any] = []

    def render(messages: Any, **variables: Any) -> str:
        seen.append((list(messages), variables))
        return NEXT

    variables = frozenset({"reasoning_effort"})
    fields = {"reasoning": HARMONY, "render_chat": render, "template_variables": variables}
    with scripted(ANSWER, **fields) as client:
        messages: Any = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello!", "reasoning_content": "User greets."},
            {"role": "user", "content": "Bye"},
        ]
        client.chat.completions.create(model="fake", messages=messages, reasoning_effort="high")
        client.responses.create(model="fake", input="Hi", reasoning={"effort": "low"})
    assert seen[0][0][1]["thinking"] == "User greets."
    assert [variables["reasoning_effort"] for _, variables in seen] == ["high", "low"]


def test_command_line_shows_the_answer_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from assay.engine.core import engine as module
    from assay.engine.requests.outputs import Chunk

    def stream(self: Any, prompt: Any, params: Any, adapter: Any) -> Iterator[Chunk]:
        assert params.skip_special_tokens is False
        for character in ANSWER:
            yield Chunk(character, 1)

    monkeypatch.setattr(module.Engine, "stream", stream)
    template = tmp_path / "t.jinja"
    template.write_text(
        "<|start|><|message|>{{ messages[0].content }}<|start|>assistant{# <|channel|> #}"
    )
    words = ["chat", "synthetic", "Hi", "--chat-template", str(template)]
    assert run(words) == 0
    printed = capsys.readouterr()
    assert printed.out == "Hello!\n"
    assert "User greets." in printed.err
    assert run([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["text"], answer["reasoning"]) == ("Hello!", "User greets.")
