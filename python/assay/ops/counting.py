"""FLOPs and bytes of operations, from the stack's equations.

The equations are in `assay.stack.kernels`; `counts.json` stores them as tapes, so that counting
does not import the registry. `scripts/make_operation_counts.py` writes it.
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
    """The FLOPs and bytes of one call."""

    flops: float
    bytes: int

    def __add__(self, other: object) -> Count:
        """The sum of two calls."""
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
def gemm(
    rows: int,
    columns: int,
    depth: int,
    weight_bytes: float,
    activation_bytes: float = 4.0,
    output_bytes: float = 4.0,
) -> Count:
    """A GEMM of (rows, depth) activations with (columns, depth) weights; bytes are per element."""
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
    queries: int,
    tokens: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    kv_bytes: int,
    window: int = 0,
) -> Count:
    """Causal attention of the last `queries` tokens of a sequence of `tokens` tokens.

    A query sees the last `window` of them, itself included; 0 means all.
    """
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
        "window": window,
    }
    if queries == 1:
        return _evaluate("kernels.decode", {**shared, "context": tokens})
    # A separate operation writes keys and values.
    return _evaluate("kernels.prefill", {**shared, "length": queries, "keys": tokens, "caching": 0})


def memory_traffic(*sizes: int) -> Count:
    """An operation bound by memory traffic: no FLOPs, the sum of these bytes."""
    return Count(0.0, sum(sizes))
