"""Requests of an own log, without texts: JSON lines of times and lengths.

{"arrival_s": 1.5, "input_tokens": 512, "output_tokens": 128}
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assay.load.workloads.readers.lengths_csv import of_model
from assay.load.workloads.readers.recorded import Format, Rows, json_objects, lengths_row, seconds

FIELDS: Final = ("arrival_s", "input_tokens", "output_tokens")


def read(path: Path) -> Rows:
    """The requests of a file."""
    for _, row in json_objects(path):
        time, prompt, output = (row.get(name) for name in FIELDS)
        yield of_model(
            lengths_row(seconds(time), prompt, output, row.get("hash_ids")), row.get("model")
        )


FORMAT: Final = Format(
    "lengths", "arrival_s (s), input_tokens, output_tokens, hash_ids of 512 tokens", read,
    lambda path: 512,
)  # fmt: skip
