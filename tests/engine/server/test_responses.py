"""/v1/responses through the official client."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import openai
import pytest
from running_server import running_engine
from scripted_server import client_of, scripted

from assay.engine import Engine
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.server.reasoning import FORMATS

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: Any = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'
TEMPLATE = (
    "{% for tool in tools or [] %}T{% endfor %}{% for message in messages %}"
    "{{ message.role }}:{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.arguments.city }}{% endfor %};"
    "{% endfor %}"
)


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    files = dataclasses.replace(synthetic_model(), template_text=TEMPLATE)
    with running_engine(Engine.load(files)) as served, client_of(served) as client:
        yield client


def test_reasoning_text_and_calls_are_items() -> None:
    with scripted(f"<think>Hm.</think>So: {CALL}", reasoning=FORMATS["qwen3"]) as client:
        answer = client.responses.create(model="fake", input="Rain?", tools=[WEATHER])
        stream = client.responses.create(model="fake", input="Rain?", tools=[WEATHER], stream=True)
        events = list(stream)
    assert answer.status == "completed"
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call"]
    assert answer.output_text == "So:"
    call: Any = answer.output[2]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Rome"})
    assert answer.usage is not None
    assert answer.usage.input_tokens == 5
    assert answer.usage.total_tokens == 5 + answer.usage.output_tokens

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]
    last: Any = events[-1]
    assert last.type == "response.completed"
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == "So:"
    thoughts = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(thoughts) == "Hm."
    arguments = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(arguments) == call.arguments

    def shown(items: list[Any]) -> list[dict[str, Any]]:
        return [item.model_dump(exclude={"id", "call_id"}) for item in items]

    assert shown(last.response.output) == shown(answer.output)


def test_a_conversation_with_results_of_tools(client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model="model",
        instructions="Be brief",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Rain?"}]},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "get_weather",
                "arguments": '{"city": "Rome"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "dry"},
        ],
        tools=[WEATHER],
        tool_choice="none",
        max_output_tokens=3,
    )
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage is not None
    # Every byte is a token.
    rendered = "Tsystem:Be brief;user:Rain?;assistant:Rome;tool:dry;"
    assert answer.usage.input_tokens == len(rendered)


def test_formats_and_forced_calls(client: openai.OpenAI) -> None:
    schema = {"type": "json_schema", "name": "place", "schema": PARAMETERS}
    answer = client.responses.create(
        model="model", input="Where?", text={"format": schema}, max_output_tokens=300
    )
    jsonschema_rs.validate(PARAMETERS, json.loads(answer.output_text))
    forced: Any = {"type": "function", "name": "get_weather"}
    answer = client.responses.create(
        model="model", input="?", tools=[WEATHER], tool_choice=forced, max_output_tokens=300
    )
    (call,) = answer.output
    assert call.type == "function_call"
    jsonschema_rs.validate(PARAMETERS, json.loads(call.arguments))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"previous_response_id": "resp-1"}, "previous_response_id: this server"),
        ({"store": True}, "keeps no responses"),
        ({"background": True}, "background"),
        ({"input": []}, "input"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"$ref": "#"}}}},
            "str",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals(
    client: openai.OpenAI, options: dict[str, Any], message: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        client.responses.create(**{"model": "model", "input": "a", "stream": stream, **options})
