"""Server-sent events: JSON, one event a message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi.responses import StreamingResponse

from assay.answers import to_json

STILL_HERE: Final = ": still here\n\n"
"""A comment, sent where no event comes, so that a closed connection is noticed."""


def event(name: str, data: Any) -> str:
    r"""An event as text; JSON escapes every line break in the data.

    >>> event("tick", {"at": 1})
    'event: tick\ndata: {"at": 1}\n\n'
    """
    # to_json makes every number finite; what it indents is written on one line again.
    return f"event: {name}\ndata: {json.dumps(json.loads(to_json(data)))}\n\n"


def stream(events: AsyncIterator[str]) -> StreamingResponse:
    """The response of a stream of events."""
    return StreamingResponse(events, media_type="text/event-stream")
