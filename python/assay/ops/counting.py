"""FLOPs and bytes of operations, by the stack's own equations.

The equations live in `assay.stack.kernels`; `counts.json` holds them as tapes, so that counting
needs neither the registry nor its load time. `scripts/make_operation_counts.py` writes it.
"""

from __future__ import annotations

import array
import base64
import functools
import json
from pathlib import Path
from typing import NamedTuple

from assay._native import Tape


class Count(NamedTuple):
    """What one call of an operation does."""

    flops: float
    bytes: int

    def __add__(self, other: object) -> Count:
        """Both calls together."""
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.flops + other.flops, self.bytes + other.bytes)


NOTHING = Count(0.0, 0)


@functools.cache
def _tapes() -> dict[str, tuple[tuple[str, ...], Tape]]:
    text = Path(__file__).with_name("counts.json").read_text(encoding="ascii")
    return {
        scope: (tuple(entry["inputs"]), Tape.from_bytes(base64.b64decode(entry["tape"])))
        for scope, entry in json.loads(text).items()
    }


def _evaluate(scope: str, values: dict[str, float]) -> Count:
    inputs, tape = _tapes()[scope]
    out = array.array("d", bytes(16))
    tape.evaluate([values[name] for name in inputs], 1, memoryview(out).cast("B").cast("d", (2, 1)))
    return Count(out[0], round(out[1]))


@functools.lru_cache(maxsize=4096)
def product(
    rows: int,
    columns: int,
    depth: int,
    weight_bytes: float,
    activation_bytes: float = 4.0,
    output_bytes: float = 4.0,
) -> Count:
    """A product of rows by depth activations with columns by depth weights; bytes per element."""
    if rows * columns * depth == 0:
        return NOTHING
    return _evaluate(
        "kernels.gemm",
        {
            "rows": rows,
            "columns": columns,
            "depth": depth,
            "weight_element": weight_bytes,
            "activation_element": activation_bytes,
            "output_element": output_bytes,
        },
    )


@functools.lru_cache(maxsize=4096)
def attention(
    queries: int, tokens: int, heads: int, kv_heads: int, head_dim: int, kv_bytes: int
) -> Count:
    """Causal attention of the last `queries` of a sequence of `tokens` tokens."""
    if queries * tokens == 0:
        return NOTHING
    shared = {
        "batch": 1,
        "heads": heads,
        "kv_heads": kv_heads,
        "width": head_dim,
        "value_width": head_dim,
        "element": 4,
        "kv_element": kv_bytes,
        "window": 0,
    }
    if queries == 1:
        return _evaluate("kernels.decode", {**shared, "context": tokens})
    # Keys and values are written by an operation of its own.
    return _evaluate("kernels.prefill", {**shared, "length": queries, "keys": tokens, "caching": 0})


def moved(*sizes: int) -> Count:
    """A pass over memory that reads and writes so many bytes."""
    return Count(0.0, sum(sizes))
