"""Calls that a request forces: a grammar that allows nothing else, and the parser of its output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay.engine.requests.structured_output import WHITESPACE, StructuredOutput
from assay.engine.server.tools.events import CallArguments, CallStart, Event

Schemas = Mapping[str, Mapping[str, Any]]


class OneCall:
    """An output that is the arguments of one tool."""

    def __init__(self, name: str) -> None:
        """The tool's name."""
        self._name: str | None = name

    def push(self, text: str) -> list[Event]:
        """The text is arguments."""
        events: list[Event] = []
        if self._name is not None and text:
            events.append(CallStart(self._name))
            self._name = None
        return [*events, CallArguments(text)] if text else events

    def finish(self) -> list[Event]:
        """Nothing is held back."""
        return []


def some_calls(schemas: Schemas, *, only_one: bool) -> StructuredOutput:
    """A list of calls of any of the tools, at least one; `JsonCalls("[")` parses it.

    A grammar around the schemas leaves each its own root, at which its references start.
    """
    more = "" if only_one else ' (", " call)*'
    rules = [f'start: "[" call{more} "]"']
    rules.append("call: " + " | ".join(f"call_{index}" for index in range(len(schemas))))
    for index, (name, schema) in enumerate(schemas.items()):
        begin = json.dumps(f'{{"name": "{name}", "parameters": ')
        bounded = {"x-guidance": {"whitespace_pattern": WHITESPACE}, **schema}
        rules.append(f'call_{index}: {begin} %json {json.dumps(bounded)} "}}"')
    return StructuredOutput("lark", "\n".join(rules))


def schemas_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The parameters of tools by name; a tool without any takes an empty object."""
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    functions = [tool["function"] for tool in tools]
    return {function["name"]: function.get("parameters") or empty for function in functions}
