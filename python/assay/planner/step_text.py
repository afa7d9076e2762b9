"""A predicted step in a few lines: the model, the machine, the time and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from assay.intervals import Interval
from assay.planner.graph import Graph


def heading(graph: Graph) -> Iterator[tuple[str, str]]:
    """What was predicted, on what, and its figures: labels with their texts."""
    batch = graph.batch
    graphs = "graphs" if graph.engine == "assay" else "CUDA graphs"
    graphs = graphs if batch["cuda_graphs"] else f"no {graphs}"
    formats = f"{batch['weight_dtype']} weights, {batch['kv_dtype']} KV cache"
    yield "model", graph.model
    yield "on", f"{_ranks(batch)}{graph.hardware}, {graph.engine}, {graphs}, {formats}"
    yield "step of", _load(batch)
    totals = graph.totals
    step, floor = totals["step"], totals["floor"]
    share = 100 * floor.value / step.value
    yield "step", f"{_ms(step)}; floor {floor.value / 1e6:,.3f} ms ({share:.0f} %)"
    for name, label, scale, unit in (
        ("tokens_per_second", "tokens/s", 1.0, ""),
        ("ttft", "TTFT", 1e-6, " ms"),
        ("power", "power", 1.0, " W a GPU"),
        ("joules_per_token", "energy", 1.0, " J/token"),
        ("dollars_per_token", "cost", 1e6, " USD per million tokens"),
    ):
        if name in totals:
            whose = f", at {graph.rent}" if label == "cost" and graph.rent else ""
            yield label, _figure(totals[name], scale, unit) + whose
        elif name in graph.missing:
            yield label, f"not known: {graph.missing[name]}"


def _load(batch: Any) -> str:
    contexts = batch["context"]
    shown = (
        f"{contexts:,}" if isinstance(contexts, int) else f"{min(contexts):,} to {max(contexts):,}"
    )
    parts = []
    if batch["sequences"]:
        drafted = batch["speculative_tokens"]
        more = f" and {drafted} drafted tokens each" if drafted else ""
        parts.append(f"{batch['sequences']:,} decoding at context {shown}{more}")
    if batch["prefill_tokens"]:
        parts.append(f"{batch['prefill_tokens']:,} prefill tokens")
    return " with ".join(parts)


def _ranks(batch: Any) -> str:
    gpus = batch["tensor"] * batch["pipeline"] * batch["context_parallel"]
    return f"{gpus} x " if gpus > 1 else ""


def _ms(figure: Interval) -> str:
    return f"{figure.value / 1e6:,.3f} ms ({figure.lo / 1e6:,.3f} to {figure.hi / 1e6:,.3f})"


def _figure(figure: Interval, scale: float, unit: str) -> str:
    value, low, high = (digits(scale * x) for x in (figure.value, figure.lo, figure.hi))
    return f"{value}{unit}" if low == high else f"{value}{unit} ({low} to {high})"


def digits(value: float) -> str:
    """A number with three digits at least.

    >>> digits(0.012345), digits(1234.5)
    ('0.0123', '1,234')
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"
