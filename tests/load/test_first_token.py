"""The first token is the first that says something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.load.answers import Sent, to_record
from assay.load.connection import Exchange

USAGE = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 3}}


def text(said: str) -> dict[str, Any]:
    """A chunk of a completion."""
    return {"choices": [{"text": said}]}


@pytest.mark.parametrize(
    ("chunks", "first_s", "gaps"),
    [
        ([text("a"), text("b"), text("c")], 0.0, 2),
        # Sent before the prompt was computed, so that the first token seems to be there.
        ([text(""), text("a"), text("b"), text("c")], 1.0, 2),
        # A part of a character between others is a token.
        ([text("a"), text(""), text("c")], 0.0, 2),
        # Where nothing is said at all there is nothing else to go by.
        ([text(""), text("")], 0.0, 1),
    ],
)
def test_an_empty_chunk_is_no_first_token(
    chunks: list[dict[str, Any]], first_s: float, gaps: int
) -> None:
    pieces = [
        (10.0 + at, b"data: " + json.dumps(chunk).encode() + b"\n\n")
        for at, chunk in enumerate([*chunks, USAGE])
    ]
    record = to_record(Sent(0, 0.0, 9.0, None, Exchange(200, pieces)), 10.0)
    assert record.error is None
    assert record.first_token_s == first_s
    assert len(record.itls_s) == gaps
