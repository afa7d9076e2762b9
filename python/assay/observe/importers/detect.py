"""Opens a trace of any kind: what a file is shows in its content, not in its name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.observe.importers import kineto, rocprof
from assay.observe.store import HEADER
from assay.observe.trace import Trace

HEAD: Final = 1 << 16
"""Bytes of a file that tell what it is."""

PACKET_KEY: Final = b"\x0a"
"""The first byte of a Perfetto trace: the key of a packet."""

READABLE: Final = (
    "stored traces, PyTorch profiler (Kineto) and Chrome JSON, Nsight Systems (nsys export --type "
    "sqlite), rocprofv3 (json, csv), Chakra, and what assay trace export writes"
)
"""What can be read, for errors."""


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
    trace = import_module(f"assay.observe.importers.{kind}").read(path, progress=progress)
    assert isinstance(trace, Trace)
    return trace


def recognize(path: Path) -> str:
    """The module that reads a file, or `stored`; an error that says what it looks like."""
    if path.is_dir():
        if (path / HEADER).is_file():
            return "stored"
        if any(rocprof.is_csv(one) for one in path.rglob("*.csv")):
            return "rocprof"
        raise InputError(f"{path}: expected a trace, got a folder without {HEADER}", _HINT)
    if not path.is_file():
        raise InputError(f"{path}: expected a trace, got something that is not a file")
    head = _head(path)
    if head.startswith(b"SQLite format 3\0"):
        return "nsight"
    if _looks_like_chakra(head):
        return "chakra"
    if _looks_like_packets(head):
        return "perfetto"
    for module, pattern in _TEXT.items():
        if pattern.match(head):
            return module
    if rocprof.is_csv(path):
        return "rocprof"
    raise InputError(f"{path}: expected a trace, got {_likeness(head)}", _HINT)


_HINT: Final = f"assay reads {READABLE}"
_TEXT: Final = {
    "chrome": re.compile(rb'\s*\{.{0,200}"assay_trace":\s*\{', re.DOTALL),
    "lines": re.compile(rb'\s*\{"assay_trace":'),
    "rocprof": re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:'),
    "table": re.compile(rb'"?kind"?,"?name"?,"?category"?,"?start_ns"?,'),
    # The list may stand behind a long description of the machine.
    "kineto": re.compile(
        rb'\s*(\{.*"(traceEvents|deviceProperties|baseTimeNanoseconds|distributedInfo)"\s*:|\[\s*[\]{])',
        re.DOTALL,
    ),
}


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


def _looks_like_packets(head: bytes) -> bool:
    """Whether a packet of Perfetto begins here: its key and length, and another one after it."""
    if head[:1] != PACKET_KEY or len(head) < 3:
        return False
    if head[1] >= 0x80:
        # A packet of more than 127 bytes, as the first one is: ASCII has no such byte.
        return True
    after = 2 + head[1]
    return after == len(head) or head[after : after + 1] == PACKET_KEY


def _looks_like_chakra(head: bytes) -> bool:
    """Whether a length stands here, and GlobalMetadata with a version like 1.0.0 after it."""
    return bool(re.match(rb"(?:[\x80-\xff]{0,4}[\x00-\x7f])\x0a[\x01-\x20]\d+\.\d+", head))


def _likeness(head: bytes) -> str:
    """What the beginning of a file looks like, in words."""
    if not head.strip():
        return "an empty file"
    text = head.decode("utf-8", "replace")
    if text.isprintable() or text[:1] in "{[":
        return f"text that begins with {text[:40]!r}"
    return f"a file that begins with the bytes {head[:8].hex(' ')}"
