"""vLLM's `timed_trace`: labels as Mooncake's, times in seconds and blocks of 16 tokens.

`vllm bench serve --dataset-name timed_trace` reads it; the traces of Qwen (Bailian) are of this form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assay.load.workloads.readers.mooncake import request
from assay.load.workloads.readers.recorded import Format, Rows, json_objects

BLOCK_TOKENS: Final = 16


def read(path: Path) -> Rows:
    """The requests of a file."""
    for _, row in json_objects(path):
        yield request(row, 1.0)


FORMAT: Final = Format(
    "timed_trace",
    "timestamp (s), input_length, output_length, hash_ids of 16 tokens",
    read,
    lambda path: BLOCK_TOKENS,
)
