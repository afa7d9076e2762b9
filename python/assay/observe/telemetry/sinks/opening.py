"""Sinks by their name: `jsonl:PATH`, `prometheus:PORT`, `s3://BUCKET/PREFIX`, `module:Class`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any, Final

from assay.errors import InputError
from assay.observe.telemetry.sinks.jsonl import JsonLines
from assay.observe.telemetry.sinks.otlp import Otlp
from assay.observe.telemetry.sinks.parquet import Parquet
from assay.observe.telemetry.sinks.prometheus import PrometheusExporter
from assay.observe.telemetry.sinks.s3 import S3
from assay.observe.telemetry.sinks.sink import Sink

ENTRY_POINTS: Final = "assay.telemetry.sinks"
"""Group of entry points under which a package registers its sinks."""

FORMS: Final = (
    "parquet[:FOLDER]",
    "jsonl:PATH",
    "prometheus:[HOST:]PORT",
    "otlp[:URL]",
    "s3://BUCKET/PREFIX",
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
        return _checked(entry.load(), rest or None, text)
    if matched := _CLASS.fullmatch(text):
        return _of_module(matched[1], matched[2], matched[3], text)
    raise InputError(f'unknown sink "{text}"', f"one of: {', '.join(FORMS)}")


def _parquet(rest: str, run: str) -> Sink:
    return Parquet(rest) if rest else Parquet.default(run)


def _jsonl(rest: str, run: str) -> Sink:
    if not rest:
        raise InputError("sink jsonl: expected a path, got none", "jsonl:telemetry.jsonl")
    return JsonLines(rest)


def _prometheus(rest: str, run: str) -> Sink:
    host, _, port = rest.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InputError(
            f'sink prometheus: expected a port, got "{port}"', "prometheus:9400, on the loopback"
        )
    return PrometheusExporter(int(port), host.strip("[]") or "127.0.0.1")


def _of_module(module: str, name: str, argument: str | None, text: str) -> Sink:
    try:
        made: Any = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise InputError(
            f'unknown sink "{text}": no module {error.name}', f"one of: {', '.join(FORMS)}"
        ) from None
    except AttributeError:
        raise InputError(f"sink {text}: module {module} has no {name}") from None
    return _checked(made, argument, text)


def _checked(factory: Any, argument: str | None, text: str) -> Sink:
    """The sink that a class of somebody else makes, if it is one."""
    try:
        made = factory() if argument is None else factory(argument)
    except TypeError as error:
        raise InputError(
            f"sink {text}: {error}", "give its argument as module:Class:ARGUMENT"
        ) from (error)
    if not isinstance(made, Sink):
        raise InputError(
            f"sink {text}: expected name, batch_s, batch_samples, open, write and close",
            "assay.observe.telemetry.sinks.sink.Sink describes them",
        )
    return made


_BUILT_IN: Final[dict[str, Callable[[str, str], Sink]]] = {
    "parquet": _parquet,
    "jsonl": _jsonl,
    "prometheus": _prometheus,
    "otlp": lambda rest, run: Otlp(rest),
    "s3": lambda rest, run: S3(f"s3:{rest}"),
}
