"""Sinks by their name: `jsonl:PATH`, `prometheus:PORT`, `s3://BUCKET/PREFIX`, `module:Class`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any, Final

from assay.errors import InputError
from assay.observe.telemetry.sinks.sink import Sink

ENTRY_POINTS: Final = "assay.telemetry.sinks"
"""Group of entry points under which a package registers its sinks."""

FORMS: Final = (
    "jsonl:PATH",
    "module:Class",
)
"""The forms of a sink's name."""

_CLASS: Final = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*):([A-Za-z_]\w*)(?:[:=](.*))?", re.ASCII)


def open_sink(text: str, run: str) -> Sink:
    """The sink of that name; `run` names the default places."""
    scheme, _, rest = text.partition(":")
    if scheme in _BUILT_IN:
        return _BUILT_IN[scheme](rest, run)
    for entry in metadata.entry_points(group=ENTRY_POINTS, name=scheme):
        return _checked(entry.load()(rest) if rest else entry.load()(), text)
    if found := _CLASS.fullmatch(text):
        return _of_class(found[1], found[2], found[3], text)
    raise InputError(f'unknown sink "{text}"', f"one of: {', '.join(FORMS)}")


def _jsonl(rest: str, run: str) -> Sink:
    from assay.observe.telemetry.sinks.jsonl import JsonLines

    if not rest:
        raise InputError("sink jsonl: expected a path, got none", "jsonl:telemetry.jsonl")
    return JsonLines(rest)


def _of_class(module: str, name: str, argument: str | None, text: str) -> Sink:
    try:
        made: Any = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise InputError(
            f'unknown sink "{text}": no module {error.name}', f"one of: {', '.join(FORMS)}"
        ) from None
    except AttributeError:
        raise InputError(f"sink {text}: module {module} has no {name}") from None
    return _checked(made() if argument is None else made(argument), text)


def _checked(made: Any, text: str) -> Sink:
    if not isinstance(made, Sink):
        raise InputError(
            f"sink {text}: expected name, batch_s, batch_samples, open, write and close",
            "assay.observe.telemetry.sinks.sink.Sink describes them",
        )
    return made


_BUILT_IN: Final[dict[str, Callable[[str, str], Sink]]] = {"jsonl": _jsonl}
