"""Tool calls and reasoning over HTTP, through the official client."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import openai
import pytest
from running_server import running_engine
from scripted_server import client_of, scripted

from assay.engine import Engine
from assay.engine.loading import open_model
from assay.engine.loading.chat_template import ChatTemplate
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.loading.template_file import replaced_template
from assay.engine.server.reasoning import FORMATS, ReasoningSplit
from assay.engine.server.tools import FAMILIES, recognized

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"$ref": "#/$defs/days"}},
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now", "description": "The time"}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.arguments.city }}{% endfor %}"
    "<|end|>\n{% endfor %}assistant:<tool_call>"
)


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    """A client of a real engine that renders tools."""
    files = dataclasses.replace(synthetic_model(), template_text=TEMPLATE)
    with running_engine(Engine.load(files)) as served, client_of(served) as client:
        yield client


def ask(client: openai.OpenAI, **options: Any) -> Any:
    messages = options.pop("messages", [{"role": "user", "content": "Rain?"}])
    model = client.models.list().data[0].id
    return client.chat.completions.create(model=model, messages=messages, **options)


def test_calls_of_the_model() -> None:
    with scripted(f"Let me look.\n{CALL}\n{CALL}") as client:
        choice = ask(client, tools=[WEATHER]).choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me look."
        first, second = choice.message.tool_calls
        assert first.function.name == "get_weather"
        assert json.loads(first.function.arguments) == {"city": "Rome"}
        assert first.id.startswith("call-")
        assert first.id != second.id
        only = ask(client, tools=[WEATHER], parallel_tool_calls=False).choices[0].message
        assert len(only.tool_calls) == 1
        plain = ask(client, tools=[WEATHER], tool_choice="none").choices[0]
        assert plain.message.tool_calls is None
        assert "<tool_call>" in plain.message.content
        assert plain.finish_reason == "stop"


def test_streamed_calls_add_up_to_those_of_the_full_response() -> None:
    with scripted(
        f"<think>Hm. </think>\n\nSo:\n{CALL}{CALL}", reasoning=FORMATS["qwen3"]
    ) as client:
        message = ask(client, tools=[WEATHER], n=2).choices[1].message
        thought, text, reasons = "", "", []
        calls: list[dict[str, str]] = []
        for chunk in ask(client, tools=[WEATHER], stream=True):
            choice = chunk.choices[0]
            delta = choice.delta
            text += delta.content or ""
            thought += getattr(delta, "reasoning_content", None) or ""
            for part in delta.tool_calls or ():
                if part.id:
                    assert part.index == len(calls)
                    calls.append({"name": part.function.name, "arguments": ""})
                calls[part.index]["arguments"] += part.function.arguments
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert thought == message.reasoning_content == "Hm."
    assert text == message.content == "So:"
    found = [call.function.model_dump() for call in message.tool_calls]
    assert [(one["name"], one["arguments"]) for one in calls] == [
        (one["name"], one["arguments"]) for one in found
    ]
    assert reasons == ["tool_calls"]


def test_reasoning_can_be_left_out_and_is_counted() -> None:
    with scripted("<think>Hm.</think>Yes", reasoning=FORMATS["qwen3"]) as client:
        answer = ask(client, extra_body={"include_reasoning": False})
        assert answer.choices[0].message.content == "Yes"
        assert answer.choices[0].message.reasoning_content is None
        assert answer.usage.completion_tokens == len("<think>Hm.</think>Yes") + 1


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        ("a:", "<think>\nhm\n</think>\n\nyes", ("hm", "yes")),
        ("a:<think>\n", "hm\n</think>\n\nyes </think>", ("hm", "yes </think>")),
        ("a:<think>\n\n</think>\n\n", "yes", ("", "yes")),
        ("a:", " <thin", ("", " <thin")),
        ("a:", "no <think>x</think>", ("", "no <think>x</think>")),
        ("a:<think>", "never ends", ("never ends", "")),
        ("<think> from a user\na:", "yes", ("", "yes")),
    ],
)
def test_reasoning_is_split_the_same_in_pieces(
    prompt: str, text: str, expected: tuple[str, str]
) -> None:
    for size in (1, 2, 5, len(text)):
        split = ReasoningSplit(FORMATS["qwen3"], prompt)
        parts = [split.push(text[at : at + size]) for at in range(0, len(text), size)]
        parts.append(split.finish())
        assert ("".join(p[0] for p in parts), "".join(p[1] for p in parts)) == expected


def test_a_required_call_is_one_of_the_tools(client: openai.OpenAI) -> None:
    choice = ask(
        client,
        tools=[WEATHER, NOW],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=500,
        seed=4,
    ).choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    arguments = json.loads(call.function.arguments)
    schema = PARAMETERS if call.function.name == "get_weather" else {"maxProperties": 0}
    jsonschema_rs.validate(schema, arguments)
    assert choice.message.content is None


def test_a_named_call_has_valid_arguments(client: openai.OpenAI) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    chunks = list(ask(client, tools=[WEATHER, NOW], tool_choice=named, max_tokens=500, stream=True))
    parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
    assert [part.function.name for part in parts if part.function.name] == ["get_weather"]
    jsonschema_rs.validate(PARAMETERS, json.loads("".join(p.function.arguments for p in parts)))
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_results_of_tools_are_sent_back(client: openai.OpenAI) -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    messages = [
        {"role": "user", "content": "Rain?"},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [{"id": "call-1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call-1", "content": "sunny"},
    ]
    answer = ask(client, messages=messages, tools=[WEATHER], max_tokens=3)
    rendered = (
        f"{json.dumps(WEATHER)}\nuser: Rain?<|end|>\nassistant: Rome<|end|>\ntool: sunny<|end|>\n"
        "assistant:<tool_call>"
    )
    # Every byte is a token, and so is each of the three special ones.
    assert answer.usage.prompt_tokens == len(rendered.replace("<|end|>", "E"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tool_choice": "auto"}, "needs tools"),
        ({"tools": [NOW, NOW]}, '"now" twice'),
        (
            {"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "not among the tools",
        ),
        ({"tools": [NOW], "response_format": {"type": "json_object"}}, "set tool_choice to none"),
        (
            {"tools": [NOW], "tool_choice": "required", "response_format": {"type": "json_object"}},
            "has a format already",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "expected a text that matches",
        ),
        ({"tools": [NOW] * 129}, "at most 128"),
        ({"extra_body": {"chat_template_kwargs": {"messages": "x"}}}, "field of its own"),
        ({"messages": [{"role": "user", "content": None}]}, "expected content"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"$ref": "#"}}}
                ],
                "tool_choice": "required",
            },
            "structured output: expected",
        ),
    ],
)
def test_refusals(client: openai.OpenAI, options: dict[str, Any], message: str) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        ask(client, **options)


def test_a_model_without_tools_says_so() -> None:
    for fields, message in (
        ({"renders_tools": False}, "does not show tools"),
        ({"tool_family": None}, "--tool-call-parser"),
    ):
        with (
            scripted("x", **fields) as client,
            pytest.raises(openai.BadRequestError, match=message),
        ):
            ask(client, tools=[NOW])


def test_tools_can_be_tried_with_a_model_that_pull_knows(smollm2: Path, root: Path) -> None:
    file = root / "examples" / "chat_templates" / "chatml_tools.jinja"
    files = replaced_template(open_model(smollm2), file)
    with running_engine(Engine.load(files)) as served, client_of(served) as client:
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            answer = ask(
                client, tools=[WEATHER], tool_choice=choice, seed=1, max_tokens=60
            ).choices[0]
            [call, *_] = answer.message.tool_calls
            jsonschema_rs.validate(PARAMETERS, json.loads(call.function.arguments))


def test_template_of_the_examples_writes_chatml(root: Path) -> None:
    text = (root / "examples" / "chat_templates" / "chatml_tools.jinja").read_text()
    template = ChatTemplate(text, {})
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3"},
    ]
    assert template.render(messages[:1]) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    rendered = template.render(messages, tools=[WEATHER])
    assert f"<tools>\n{json.dumps(WEATHER)}\n</tools>" in rendered
    assert rendered.endswith(
        '<|im_start|>assistant\n\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    assert recognized(text) is FAMILIES["hermes"]
