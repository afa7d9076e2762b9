"""Calls that are written as a Python list of calls with keywords: `[weather(city="Rome")]`."""

from __future__ import annotations

import ast
import json

from assay.engine.server.tools.events import CallArguments, CallStart, Content, Event

_MAX_CHARACTERS = 65_536


class PythonicCalls:
    """An output that is such a list as a whole; it is parsed when it is complete."""

    def __init__(self, prefix: str = "") -> None:
        """`prefix` is a marker that may stand before the list."""
        self._prefix = prefix
        self._text = ""
        self._is_plain = False

    def push(self, text: str) -> list[Event]:
        """The text, if the output did not begin with a bracket."""
        if self._is_plain:
            return [Content(text)] if text else []
        self._text += text
        begin = self._text.lstrip().removeprefix(self._prefix).lstrip()
        maybe_prefix = self._prefix.startswith(self._text.lstrip())
        if not begin or begin.startswith("[") or maybe_prefix:
            return []
        self._is_plain = True
        held, self._text = self._text, ""
        return [Content(held)]

    def finish(self) -> list[Event]:
        """The calls; the text, if it is none."""
        text = self._text.strip()
        if not text:
            return []
        calls = _calls(text.removeprefix(self._prefix).strip())
        if calls is None:
            return [Content(self._text)]
        return [
            event
            for name, arguments in calls
            for event in (CallStart(name), CallArguments(json.dumps(arguments, ensure_ascii=False)))
        ]


def _calls(text: str) -> list[tuple[str, dict[str, object]]] | None:
    """The calls of a list; None if it is no list of calls with literal keyword arguments."""
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        body = ast.parse(text, mode="eval").body
        if not isinstance(body, ast.List) or not body.elts:
            return None
        return [_call(element) for element in body.elts]
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return None


def _call(node: ast.expr) -> tuple[str, dict[str, object]]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError
    arguments = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in node.keywords}
    if "" in arguments:
        raise ValueError
    json.dumps(arguments)
    return ast.unparse(node.func), arguments
