"""YAML as data: the core schema of YAML 1.2, without aliases, tags or duplicate keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.lazy_import import LazyModule

if TYPE_CHECKING:
    import yaml
else:
    yaml = LazyModule("yaml", globals(), "yaml")

MAX_DEPTH: Final = 32
"""Nesting that no hand-written file reaches."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?"
)
_WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "true": True, "false": False,
}  # fmt: skip


def loads(text: str, source: str) -> Any:
    """The one document of a text; `source` names it in errors.

    Plain words are text unless they are null, true, false or numbers: `on` and `no` stay words,
    which YAML 1.1 would turn into booleans.

    >>> loads("knobs: {overlap: [on, off], depth: [0, 4]}", "example")
    {'knobs': {'overlap': ['on', 'off'], 'depth': [0, 4]}}
    """
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        return _Reader(events, source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise InputError(f"{source}: expected YAML, got{where}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{source}: expected YAML, got: {str(error).splitlines()[0]}") from None


class _Reader:
    """Builds plain data from the events of the parser."""

    def __init__(self, events: Iterator[Any], source: str) -> None:
        self._events = events
        self._source = source

    def document(self) -> Any:
        next(self._events)  # The start of the stream.
        first = next(self._events)
        if isinstance(first, yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), 0)
        next(self._events)  # The end of the document.
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._refused(after, "one document", "a second one")
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._refused(event, f"at most {MAX_DEPTH} levels", "more")
        if isinstance(event, yaml.AliasEvent):
            raise self._refused(event, "no alias", f"*{event.anchor}")
        if event.anchor is not None:
            raise self._refused(event, "no anchor", f"&{event.anchor}")
        if event.tag is not None:
            raise self._refused(event, "no tag", event.tag)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(one, depth + 1) for one in self._until(yaml.SequenceEndEvent)]
        return self._mapping(depth)

    def _mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            name = self._value(event, depth + 1)
            if not isinstance(name, str):
                raise self._refused(event, "a word as key", repr(name)[:40])
            if name in mapping:
                raise self._refused(event, "each key once", f"{name} again")
            mapping[name] = self._value(next(self._events), depth + 1)
        return mapping

    def _until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.style is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                raise self._refused(event, "a finite number", text[:40])
            return number
        return text

    def _refused(self, event: Any, expected: str, got: str) -> InputError:
        line = event.start_mark.line + 1
        return InputError(f"{self._source}: expected {expected}, got {got} in line {line}")
