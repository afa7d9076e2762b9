"""Parsers of tool calls: texts in the formats that the models' own templates and cards show.

Every text is parsed whole, character by character and in random pieces, with the same result.
"""

import json
import random

import pytest

from assay.engine.server.tools import (
    FAMILIES,
    CallArguments,
    CallStart,
    Content,
    family_named,
    recognized,
)
from assay.errors import AssayError

WEATHER = ("get_weather", {"city": "Rome", "days": 2})
TIME = ("get_time", {"zone": 'a "quoted" {brace}', "list": [1, {"b": None}]})
SCHEMAS = {
    "get_weather": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    "get_time": {"properties": {"zone": {"type": "string"}, "list": {"type": "array"}}},
}
BAR, UNDER = "\uff5c", "\u2581"


def deepseek(name: str) -> str:
    return f"<{BAR}{name.replace(' ', UNDER)}{BAR}>"


def as_json(call, key="arguments", **options) -> str:
    return json.dumps({"name": call[0], key: call[1]}, **options)


CASES = {
    "hermes: one call": ("hermes", f"<tool_call>\n{as_json(WEATHER)}\n</tool_call>", "", [WEATHER]),
    "hermes: text and two calls": (
        "hermes",
        f"I will look.\n<tool_call>\n{as_json(WEATHER)}\n</tool_call>\n"
        f"<tool_call>\n{as_json(TIME, indent=2)}\n</tool_call>",
        "I will look.\n",
        [WEATHER, TIME],
    ),
    "hermes: arguments before the name": (
        "hermes",
        '<tool_call>{"arguments": {"city": "Rome", "days": 2}, "name": "get_weather"}</tool_call>',
        "",
        [WEATHER],
    ),
    "hermes: arguments as a string": (
        "hermes",
        f'<tool_call>{{"name": "get_weather", "arguments": {json.dumps(json.dumps(WEATHER[1]))}}}',
        "",
        [WEATHER],
    ),
    "hermes: no arguments": ("hermes", '<tool_call>{"name": "now"}</tool_call>', "", [("now", {})]),
    "hermes: a text that only looks like it": (
        "hermes",
        "1 < 2, <tool, <tool_call",
        "1 < 2, <tool, <tool_call",
        [],
    ),
    "qwen3_coder": (
        "qwen3_coder",
        "Looking.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
        "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
        "Looking.\n",
        [WEATHER],
    ),
    "llama3_json: one call": ("llama3_json", as_json(WEATHER, "parameters"), "", [WEATHER]),
    "llama3_json: tagged, two calls": (
        "llama3_json",
        f"<|python_tag|>{as_json(WEATHER, 'parameters')}; {as_json(TIME, 'parameters')}",
        "",
        [WEATHER, TIME],
    ),
    "llama3_json: an answer in JSON": ("llama3_json", '{"city": "Rome"}', '{"city": "Rome"}', []),
    "llama3_json: an answer": ("llama3_json", "It rains {here}.", "It rains {here}.", []),
    "pythonic: two calls": (
        "pythonic",
        "[get_weather(city='Rome', days=2), "
        "get_time(zone='a \"quoted\" {brace}', list=[1, {'b': None}])]",
        "",
        [WEATHER, TIME],
    ),
    "pythonic: tagged": (
        "pythonic",
        "<|python_start|>[get_weather(city='Rome', days=2)]",
        "",
        [WEATHER],
    ),
    "pythonic: a list": ("pythonic", "[1, 2]", "[1, 2]", []),
    "pythonic: a call with code": ("pythonic", "[f(x=g())]", "[f(x=g())]", []),
    "mistral: list": (
        "mistral",
        f"[TOOL_CALLS] [{as_json(WEATHER)}, {as_json(TIME)}]",
        "",
        [WEATHER, TIME],
    ),
    "mistral: version 11": (
        "mistral",
        f"Well[TOOL_CALLS]get_weather{json.dumps(WEATHER[1])}"
        f"[TOOL_CALLS]get_time{json.dumps(TIME[1])}",
        "Well",
        [WEATHER, TIME],
    ),
    "mistral: version 13": (
        "mistral",
        f"[TOOL_CALLS]get_weather[ARGS]{json.dumps(WEATHER[1])}",
        "",
        [WEATHER],
    ),
    "mistral: a text": ("mistral", "A [TOOL", "A [TOOL", []),
    "deepseek v3": (
        "deepseek_v3",
        deepseek("tool calls begin")
        + deepseek("tool call begin")
        + "function"
        + deepseek("tool sep")
        + f"get_weather\n```json\n{json.dumps(WEATHER[1])}\n```"
        + deepseek("tool call end")
        + "\n"
        + deepseek("tool call begin")
        + "function"
        + deepseek("tool sep")
        + f"get_time\n```json\n{json.dumps(TIME[1])}\n```"
        + deepseek("tool call end")
        + deepseek("tool calls end"),
        "",
        [WEATHER, TIME],
    ),
    "deepseek v3.1": (
        "deepseek_v3",
        "Sure."
        + deepseek("tool calls begin")
        + deepseek("tool call begin")
        + "get_weather"
        + deepseek("tool sep")
        + json.dumps(WEATHER[1])
        + deepseek("tool call end")
        + deepseek("tool calls end"),
        "Sure.",
        [WEATHER],
    ),
    "granite": (
        "granite",
        f"<|tool_call|>[{as_json(WEATHER)}, {as_json(TIME)}]",
        "",
        [WEATHER, TIME],
    ),
    "phi4_mini_json": ("phi4_mini_json", f"functools[{as_json(WEATHER)}]", "", [WEATHER]),
}


def parsed(family: str, pieces: list[str]):
    """Content and calls of an output that arrives in pieces."""
    parser = family_named(family).make(SCHEMAS)
    content, calls = "", []
    events = [event for piece in pieces for event in parser.push(piece)]
    for event in [*events, *parser.finish()]:
        match event:
            case Content(text):
                content += text
            case CallStart(name):
                calls.append([name, ""])
            case CallArguments(text):
                calls[-1][1] += text
    return content, calls


def cuts(text: str) -> list[list[str]]:
    chance = random.Random(len(text))
    ways = [[text], list(text)]
    for _ in range(6):
        ends = sorted(chance.sample(range(len(text)), min(5, len(text))))
        ways.append([text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)])
    return ways


@pytest.mark.parametrize("case", CASES)
def test_every_format_whole_and_in_pieces(case):
    family, text, content, calls = CASES[case]
    for pieces in cuts(text):
        found_content, found_calls = parsed(family, pieces)
        assert found_content.rstrip() == content.rstrip(), pieces
        assert [(name, json.loads(text)) for name, text in found_calls] == calls, pieces


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_without_calls_is_content(family):
    text = "The answer is 42: 1 < 2, [see] {below}.\n\nBye."
    for pieces in cuts(text):
        assert parsed(family, pieces) == (text, [])


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_breaks_a_parser(family):
    chance = random.Random(family)
    parts = [marker for one in FAMILIES.values() for marker in one.markers]
    parts += ['{"name": "f", "arguments": {', '"', "}", "]", "[", "</tool_call>", "x", "\\", "\n"]
    for _ in range(300):
        text = "".join(chance.choice(parts) for _ in range(chance.randint(1, 12)))
        whole, pieces = parsed(family, [text]), parsed(family, list(text))
        assert [name for name, _ in whole[1]] == [name for name, _ in pieces[1]], text
        assert whole[1] == pieces[1], text


def test_arguments_are_streamed_as_they_arrive():
    parser = family_named("hermes").make({})
    assert parser.push('<tool_call>{"name": "f", "arguments": {"a') == [
        CallStart("f"),
        CallArguments('{"a'),
    ]
    assert parser.push('": 1') == [CallArguments('": 1')]
    assert parser.push("}}") == [CallArguments("}")]


def test_an_output_that_was_cut_off_keeps_what_there_is():
    assert parsed("hermes", ['<tool_call>{"name": "f", "arguments": {"a": "b'])[1] == [
        ["f", '{"a": "b']
    ]
    assert parsed("hermes", ['<tool_call>{"na'])[0] == '{"na'


@pytest.mark.parametrize(
    ("template", "family"),
    [
        ("... <tool_call>\n{...}\n</tool_call> ...", "hermes"),
        ("<tool_call>\n<function=example>", "qwen3_coder"),
        ('{{ "[TOOL_CALLS]" }}', "mistral"),
        ("<|python_tag|>", "llama3_json"),
        ('{"name": function name, "parameters": dictionary', "llama3_json"),
        (deepseek("tool calls begin"), "deepseek_v3"),
        ("<|tool_call|>", "granite"),
    ],
)
def test_the_format_is_recognized_in_the_template(template, family):
    found = recognized(template)
    assert found is not None
    assert found.name == family
    assert recognized("{{ messages }}") is None


def test_an_unknown_parser_is_refused():
    with pytest.raises(AssayError, match="tool-call parser"):
        family_named("hermse")
