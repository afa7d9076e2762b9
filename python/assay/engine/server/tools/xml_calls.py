"""Calls that are written as elements: Qwen3-Coder's `<function=name><parameter=key>value`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from assay.engine.server.tools.events import CallArguments, CallStart, Content, Event, held_back

_START: Final = "<tool_call>"
_END: Final = "</tool_call>"
_FUNCTION: Final = re.compile(r"<function=([^>\s]{1,256})>")
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]{1,256})>")
_PARAMETER_END: Final = "</parameter>"


class XmlCalls:
    """Elements between markers; a call is parsed when its end marker has arrived."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """The schemas of the tools' parameters say which values are texts."""
        self._schemas = schemas
        self._text = ""
        self._in_call = False
        self._had_call = False

    def push(self, text: str) -> list[Event]:
        """The events that this text completes."""
        self._text += text
        events: list[Event] = []
        while True:
            marker = _END if self._in_call else _START
            before, found, after = self._text.partition(marker)
            if not found:
                break
            self._text = after
            if self._in_call:
                events += self._call(before)
            elif content := before.strip() if self._had_call else before:
                events.append(Content(content))
            self._in_call = not self._in_call
        if not self._in_call:
            cut = len(self._text) - held_back(self._text, (_START,))
            shown, self._text = self._text[:cut], self._text[cut:]
            if shown.strip() or (shown and not self._had_call):
                events.append(Content(shown))
        return events

    def finish(self) -> list[Event]:
        """A call whose end is missing, or the beginning of a marker."""
        if self._in_call:
            return self._call(self._text)
        return [Content(self._text)] if self._text.strip() else []

    def _call(self, text: str) -> list[Event]:
        function = _FUNCTION.search(text)
        if function is None:
            return [Content(_START + text + _END)]
        self._had_call = True
        name = function[1]
        properties = self._schemas.get(name, {}).get("properties", {})
        arguments: dict[str, Any] = {}
        for found in _PARAMETER.finditer(text, function.end()):
            value = text[found.end() :].partition(_PARAMETER_END)[0]
            value = value.removeprefix("\n").removesuffix("\n")
            schema = properties.get(found[1]) if isinstance(properties, Mapping) else None
            arguments[found[1]] = _typed(value, schema)
        return [CallStart(name), CallArguments(json.dumps(arguments, ensure_ascii=False))]


def _typed(value: str, schema: object) -> Any:
    """A value of the type that its schema names; a text where it names none or the value is none."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind is None or kind == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
