"""The step-cost model fitted to a trace, against the times that the trace was made from."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from assay.diagnose.replay.step_cost import Curve, ObservedCost, StepShape
from assay.errors import InputError
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

LAYERS = 4


def linear_ns(rows: int) -> int:
    return 10_000 + 500 * rows


def attention_ns(sequences: int, keys: int, pairs: float) -> int:
    return round(2_000 + 300 * sequences + 7 * keys + 3 * pairs)


def made(shapes: list[tuple[int, int, int]]) -> Trace:
    """Steps of (decoding sequences, their context, tokens of one prompt)."""
    rows: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    time = 0
    for number, (batch, context, prompt) in enumerate(shapes):
        sequences = batch + bool(prompt)
        pairs = prompt * (context - (prompt - 1) / 2) if prompt else 0
        begin = time
        for layer in range(LAYERS):
            for op, ns in (
                ("qkv_proj", linear_ns(batch + prompt)),
                ("attention", attention_ns(sequences, batch * context, pairs)),
            ):
                rows.append({"kind": "kernel", "name": op, "op": op, "layer": layer,
                             "step": number, "start_ns": time, "dur_ns": ns})  # fmt: skip
                time += ns
        rows.append({"kind": "kernel", "name": "lm_head", "op": "lm_head", "layer": None,
                     "step": number, "start_ns": time, "dur_ns": 5_000 * sequences})  # fmt: skip
        time += 5_000 * sequences
        device = time - begin
        time += 40_000 + 1_000 * sequences
        steps.append({"step": number, "phase": "decode", "start_ns": begin, "dur_ns": time - begin,
                      "device_ns": device, "batch": batch, "prefill_tokens": prompt,
                      "context": context, "requests": sequences, "source": "engine"})  # fmt: skip
    columns = schema.step_columns()
    table = pl.DataFrame([{name: row.get(name) for name in columns} for row in steps], columns)
    events = schema.complete(pl.DataFrame(rows, infer_schema_length=None))
    return Trace(TraceHeader(engine="assay"), events, table)


SHAPES = [(1, 100, 0), (1, 900, 0), (4, 100, 0), (16, 300, 0), (0, 64, 64), (0, 512, 512)] * 3


def expected(batch: int, context: int) -> int:
    device = LAYERS * (linear_ns(batch) + attention_ns(batch, batch * context, 0)) + 5_000 * batch
    return device + 40_000 + 1_000 * batch


@pytest.mark.parametrize(("batch", "context"), [(2, 200), (8, 700), (3, 50), (16, 100), (32, 300)])
def test_steps_that_the_trace_does_not_have(batch: int, context: int) -> None:
    cost = ObservedCost.of(made(SHAPES))
    found = cost.step_ns(StepShape.decode(batch, context))
    assert found == pytest.approx(expected(batch, context), rel=0.01)


def test_a_chunk_of_a_prompt() -> None:
    cost = ObservedCost.of(made(SHAPES))
    shape = StepShape.prefill(100, before=200)
    pairs = sum(200 + token for token in range(1, 101))
    assert shape.prefill_pairs == pairs
    device = LAYERS * (linear_ns(100) + attention_ns(1, 0, pairs)) + 5_000
    assert cost.step_ns(shape) == pytest.approx(device + 41_000, rel=0.01)


def test_factors_scale_operations() -> None:
    cost = ObservedCost.of(made(SHAPES))
    shape = StepShape.decode(4, 300)
    before, after = (one.operations_ns(shape) for one in (cost, cost.scaled({"attention": 0.5})))
    assert after["attention"] == pytest.approx(before["attention"] / 2)
    assert after["qkv_proj"] == before["qkv_proj"]


def test_curves() -> None:
    curve = Curve((1.0, 8.0, 16.0), (10.0, 10.0, 30.0))
    assert [curve.at(rows) for rows in (0, 1, 4, 12, 16, 24)] == [0, 10, 10, 20, 30, 50]


def test_a_trace_without_operations() -> None:
    trace = made(SHAPES)
    bare = Trace(
        trace.header, trace.events.with_columns(op=pl.lit(None, pl.Categorical())), trace.steps
    )
    with pytest.raises(InputError, match="expected a trace whose kernels carry steps"):
        ObservedCost.of(bare)
