"""What the CPU operation that launched a kernel says it is: an oracle that the mapper never sees.

Reads the raw JSON of PyTorch's profiler. A kernel's launch carries a correlation; the CPU operations
around the launch, on its thread, are its callers.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import Any

_BY_CALLER = {
    "rotary_embedding": "rope",
    "reshape_and_cache": "kv_cache_write",
    "unified_kv_cache_update": "kv_cache_write",
    "unified_attention": "attention",
    "silu_and_mul": "activation",
    "aten::embedding": "embedding",
}
_DENSE_LAYER = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
OUTSIDE = "outside"
"""Of no layer: inputs, selection of logits, sampling, outputs."""
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def callers(events: list[dict[str, Any]]) -> dict[int, list[tuple[float, str]]]:
    """Start and name of the CPU operations around each launch, outermost first, by correlation."""
    by_thread: dict[Any, list[tuple[float, float, str]]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "cpu_op":
            start = event["ts"]
            by_thread[event["tid"]].append((start, start + event["dur"], event["name"]))
    found: dict[int, list[tuple[float, str]]] = {}
    launches = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    for thread, operations in by_thread.items():
        operations.sort(key=lambda one: (one[0], -one[1]))
        starts = [one[0] for one in operations]
        for launch in (event for event in launches if event["tid"] == thread):
            at = launch["ts"]
            around = []
            # Nesting is shallow: callers are near.
            place = bisect.bisect_right(starts, at)
            for start, stop, name in operations[max(place - 400, 0) : place]:
                if stop >= at:
                    around.append((start, name))
            found[launch["args"]["correlation"]] = around
    return found


def expected(events: list[dict[str, Any]], layers: int) -> dict[int, tuple[int, int, str]]:
    """Step, layer and operation by correlation, for a dense model run eagerly."""
    launched = callers(events)
    device = sorted(
        (event for event in events if event.get("cat") in DEVICE),
        key=lambda event: event["args"]["correlation"],
    )
    found: dict[int, tuple[int, int, str]] = {}
    step, linear, norm, last = -1, 0, 0, (0.0, "")
    for event in device:
        correlation = event["args"]["correlation"]
        around = launched.get(correlation, [])
        text = " ".join(name for _, name in around)
        call = next((one for one in around if "linear" in one[1] or "rms_norm" in one[1]), None)
        known = next((op for mark, op in _BY_CALLER.items() if mark in text), None)
        is_new = call is not None and call != last
        if call is not None:
            last = call
        if known == "embedding":
            step, linear, norm = step + 1, 0, 0
            found[correlation] = (step, -1, "embedding")
        elif call is not None and "linear" in call[1]:
            linear += is_new
            layer, which = divmod(linear - 1, 4)
            is_head = layer >= layers
            found[correlation] = (step, -1 if is_head else layer,
                                  "lm_head" if is_head else _DENSE_LAYER[which])  # fmt: skip
        elif call is not None:
            norm += is_new
            layer, which = divmod(norm - 1, 2)
            name = "final_norm" if layer >= layers else ("input_norm", "post_attention_norm")[which]
            found[correlation] = (step, -1 if layer >= layers else layer, name)
        elif known is not None:
            layer = (linear - 1) // 4
            found[correlation] = (step, layer, known)
        else:
            found[correlation] = (step, -1, OUTSIDE)
    return found
