"""Mooncake traces: times in milliseconds, lengths, and hashes of blocks of 512 tokens.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}

Format of the traces of Qin et al., Mooncake (FAST '25). The same labels with times in seconds and
blocks of 16 tokens are `timed_trace.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assay.load.workloads.readers.recorded import (
    Format,
    LeftOut,
    Recorded,
    Rows,
    json_objects,
    lengths_row,
    seconds,
)

BLOCK_TOKENS: Final = 512


def read(path: Path) -> Rows:
    """The requests of a file."""
    for _, row in json_objects(path):
        yield request(row, 1e-3)


def request(row: Mapping[str, Any], unit: float) -> Recorded | LeftOut:
    """The request of a row; `unit` is that of its times, in seconds."""
    time = seconds(row.get("timestamp"), unit)
    return lengths_row(time, row.get("input_length"), row.get("output_length"), row.get("hash_ids"))


def fits(row: Mapping[str, Any], block_tokens: int) -> bool:
    """Whether a row has as many hashes as its prompt has blocks, a last partial one or not."""
    length, hashes = row.get("input_length"), row.get("hash_ids")
    if not isinstance(length, int) or not isinstance(hashes, list) or not hashes:
        return True
    return len(hashes) in (length // block_tokens, math.ceil(length / block_tokens))


FORMAT: Final = Format(
    "mooncake",
    "timestamp (ms), input_length, output_length, hash_ids of 512 tokens",
    read,
    lambda path: BLOCK_TOKENS,
)
