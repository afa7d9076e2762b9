"""Opens a trace of any kind: what a file is shows in its content, not in its name."""

from __future__ import annotations

import pkgutil
import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from assay.errors import InputError
from assay.observe import importers
from assay.observe.importers import kineto
from assay.observe.store import HEADER
from assay.observe.trace import Trace

HEAD: Final = 1 << 16
"""Bytes of a file that tell what it is."""


def open_trace(
    path: str | Path, *, progress: Callable[[str], None] | None = None, details: bool = True
) -> Trace:
    """A stored trace, or a trace file of any tool that is known, read into memory.

    Without `details` a reader may leave out what only a look at single events needs: args, and
    the host's own work. They are most of a large trace.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: expected a trace, got nothing of that name")
    kind = recognize(path)
    if kind == "stored":
        return Trace.open(path)
    if kind == "kineto":
        return kineto.read(path, progress=progress, details=details)
    trace = import_module(f"{importers.__name__}.{kind}").read(path, progress=progress)
    assert isinstance(trace, Trace)
    return trace


@cache
def readers() -> list[ModuleType]:
    """The modules of this folder that recognize files, the most general one last."""
    modules = (
        import_module(f"{importers.__name__}.{module.name}")
        for module in pkgutil.iter_modules(importers.__path__)
    )
    return sorted(
        (module for module in modules if hasattr(module, "recognizes")),
        key=lambda module: module is kineto,
    )


def recognize(path: Path) -> str:
    """The module that reads a file, or `stored`; an error that says what it looks like."""
    if path.is_dir() and (path / HEADER).is_file():
        return "stored"
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path}: expected a trace, got something that is not a file")
    head = b"" if path.is_dir() else _head(path)
    for reader in readers():
        if reader.recognizes(path, head):
            return reader.__name__.rpartition(".")[2]
    likeness = f"a folder without {HEADER}" if path.is_dir() else _likeness(head)
    known = [reader.READS for reader in reversed(readers()) if hasattr(reader, "READS")]
    raise InputError(
        f"{path}: expected a trace, got {likeness}",
        f"assay reads stored traces, {', '.join(known)}, and what assay trace export writes",
    )


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.startswith(b"\x1f\x8b"):
        return head.removeprefix(b"\xef\xbb\xbf")
    try:
        # A file that was cut off is inflated as far as it goes; its reader says what is missing.
        return zlib.decompressobj(wbits=31).decompress(head, HEAD)
    except zlib.error as error:
        raise InputError(f"{path}: expected a gzip file, got: {error}") from None


def _likeness(head: bytes) -> str:
    """What the beginning of a file looks like, in words."""
    if not head.strip():
        return "an empty file"
    text = head.decode("utf-8", "replace")
    if text.isprintable() or text[:1] in "{[":
        return f"text that begins with {text[:40]!r}"
    return f"a file that begins with the bytes {head[:8].hex(' ')}"
