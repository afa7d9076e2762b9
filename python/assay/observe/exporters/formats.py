"""The formats that a trace is exported to, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from assay.errors import unknown_name
from assay.observe.trace import Trace

FORMATS: Final = {
    "perfetto": ("perfetto", "a trace of ui.perfetto.dev: TrackEvent protobuf"),
    "chrome": ("chrome", "Chrome JSON, legacy: chrome://tracing and tools for Kineto files"),
    "chakra": ("chakra", "a Chakra execution trace of MLCommons, with dependencies"),
    "jsonl": ("lines", "JSON lines: an event a line"),
    "csv": ("table", "CSV: an event a row"),
}
"""The module that writes each format, and what the format is."""


def write(
    trace: Trace, path: Path, name: str, *, progress: Callable[[str], None] | None = None
) -> None:
    """Write a trace in a format; the file is there completely or not at all."""
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    module = import_module(f"assay.observe.exporters.{FORMATS[name][0]}")
    module.write(trace, path, progress=progress)
