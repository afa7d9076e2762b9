"""A sampled token that the host has not read back yet."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class PendingToken(NamedTuple):
    """The token that the in-flight step samples in one row: known to the device only."""

    sample_index: int
    """The row, among those that the step samples."""


@cache
def pending_token(sample_index: int) -> PendingToken:
    """The pending token of a row; there are few rows, so each is made once."""
    return PendingToken(sample_index)
