"""Traces for the timeline of the pages: compressed columns in one response."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from fastapi.responses import Response

MEDIA_TYPE = "application/vnd.assay.timeline"


def pack(blocks: Mapping[str, bytes]) -> bytes:
    r"""Blocks in one piece: the length of an index, the index (name, length), then the blocks.

    >>> pack({"a": b"xy"})
    b'\n\x00\x00\x00[["a", 2]]xy'
    """
    index = json.dumps([[name, len(content)] for name, content in blocks.items()]).encode()
    return struct.pack("<I", len(index)) + index + b"".join(blocks.values())


def timeline_response(trace: str, name: str) -> Response:
    """The columns of a trace, with steps and operations found where its events have none."""
    from assay.observe.timeline.showing import timeline_columns

    return Response(pack(timeline_columns(trace, name)), media_type=MEDIA_TYPE)
