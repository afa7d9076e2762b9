"""What the predictions start from: a model fitted to the recording, and operations timed alone.

No case of `whatif_cases` is run here: formats of weights and of the KV cache are timed on one
operation each.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from assay import ops, xp
from assay.diagnose.replay.step_cost import ObservedCost
from assay.engine.core.kv_memory import FORMATS
from assay.engine.core.logprobs import top_logprobs
from assay.engine.loading.model_files import ModelFiles
from assay.observe.trace import Trace
from whatif_recording import SPENT, TRACE

STORED: Final = "q4_1"
"""The format of the weights of layers in the file that runs on CPUs."""
HEAD_STORED: Final = "q8_0"
"""That of its embedding, which is the head too."""
LAYERS: Final = 30
COPIES: Final = 76
"""Matrices of gate and up projection that have as many parameters as the model."""


def calibrate(files: ModelFiles, device: str, recorded: Path) -> dict[str, Any]:
    """The step-cost model fitted to a recording, and times of operations under other settings."""
    begun = time.perf_counter()
    on_cpu = device == "cpu"
    trace = Trace.open(recorded / TRACE)
    if on_cpu:
        spent = json.loads((recorded / SPENT).read_text(encoding="utf-8"))
        trace = _on_cpu_time(trace, spent)
    last = trace.events.filter(
        (pl.col("kind").cast(pl.String) == "kernel") & (pl.col("step") == trace.steps["step"].max())
    )
    found: dict[str, Any] = {
        "stored": STORED if on_cpu else "bf16",
        "head_stored": HEAD_STORED if on_cpu else "bf16",
        "layers": int(files.config["num_hidden_layers"]),
        "operations_per_step": last.height,
        "host_sections_ns": _host_sections(trace),
        "cost": asdict(ObservedCost.of(trace)),
    }
    if on_cpu:
        found["linear"] = _linear(files)
        found["attention"] = _attention(files)
        found["sampling"] = _sampling(files)
        found["dispatch_s"] = _dispatch()
    found["seconds"] = round(time.perf_counter() - begun, 1)
    return found


def _host_sections(trace: Trace) -> float:
    """What the host does in a decode step besides waiting, in nanoseconds."""
    decode = trace.steps.filter(pl.col("phase").cast(pl.String) == "decode")["step"]
    sums = (
        trace.events.filter(
            (pl.col("kind").cast(pl.String) == "host") & pl.col("step").is_in(decode.to_list())
        )
        .group_by("step")
        .agg(pl.col("dur_ns").sum())
    )
    return float(sums["dur_ns"].median() or 0.0)  # type: ignore[arg-type]


def _on_cpu_time(trace: Trace, spent: list[float]) -> Trace:
    """The trace with durations in CPU time: other processes pause kernels, which wall time counts.

    Each step is scaled so that its operations, without paused ones, and the host's time add up to
    the CPU time of the step.
    """
    cost = ObservedCost.of(trace)
    device = pl.col("op").is_not_null() & pl.col("step").is_not_null()
    undisturbed = (
        trace.events.filter(device)
        .group_by("step", "op")
        .agg(ns=pl.col("dur_ns").median() * pl.len())
        .group_by("step")
        .agg(pl.col("ns").sum())
    )
    steps = trace.steps.sort("start_ns").with_columns(cpu=pl.Series(spent) * 1e9)
    steps = steps.join(undisturbed, on="step").with_columns(
        factor=pl.col("cpu") / (pl.col("ns") + cost.host[0] + cost.host[1] * pl.col("requests"))
    )
    events = trace.events.join(steps.select("step", "factor"), on="step", how="left")
    events = events.with_columns(
        (pl.col("dur_ns") * pl.col("factor").fill_null(1.0)).round().cast(pl.Int64).alias("dur_ns")
    ).drop("factor")
    # The host's time is what is left of the step.
    table = steps.with_columns(
        dur_ns=pl.col("cpu").round().cast(pl.Int64),
        device_ns=(pl.col("ns") * pl.col("factor")).round().cast(pl.Int64),
    ).select(trace.steps.columns)
    return Trace(trace.header, events, table)


def _quiet(runs: dict[str, Callable[[int], object]], count: int) -> dict[str, float]:
    """CPU seconds of calls, taken in turns: low quantiles, so that disturbed calls do not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for first in range(0, count, LAYERS):
        for name, run in runs.items():
            for index in range(first - 5, min(first + LAYERS, count)):
                begun = time.process_time()
                run(index)
                # The first calls find the caches as another subject left them.
                if index >= first:
                    times[name].append(time.process_time() - begun)
    return {name: float(np.percentile(own, 20)) for name, own in times.items()}


def _linear(files: ModelFiles) -> dict[str, dict[str, float]]:
    """Seconds of the largest matrix of a layer, by format and rows.

    As many matrices as have the parameters of the model: caches hold what they hold of the model.
    """
    hidden, inner = int(files.config["hidden_size"]), int(files.config["intermediate_size"])
    shape = (2 * inner, hidden)
    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    found: dict[str, dict[str, float]] = {}
    weights = {
        form: [ops.pack(values, form, shape) for _ in range(COPIES)]
        for form in (STORED, "q8_0", "bf16", "f32")
    }
    subjects = [(form, own, False) for form, own in weights.items()]
    subjects.append(("batch_invariant", weights[STORED], True))
    for rows, calls, rounds in ((1, COPIES, 6), (8, COPIES, 4), (384, 10, 3)):
        x = xp.asarray(values[:rows], copy=True)
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, own, invariant in subjects:
                run = functools.partial(_multiply, x, own, invariant)
                # The first sweep over the matrices leaves the caches as a step does.
                for index in range(calls if rows < 100 else 1):
                    run(index)
                for index in range(calls):
                    begun = time.process_time()
                    run(index)
                    times.setdefault(name, []).append(time.process_time() - begun)
        for name, taken in times.items():
            found.setdefault(name, {})[str(rows)] = float(np.percentile(taken, 20))
    return found


def _multiply(x: Any, weights: list[Any], batch_invariant: bool, index: int) -> object:
    return ops.linear(x, weights[index % len(weights)], batch_invariant=batch_invariant)


def _attention(files: ModelFiles) -> dict[str, float]:
    """Seconds of decode attention of one sequence, by format and block size of the KV cache."""
    heads, kv_heads = (
        int(files.config[f"num_{name}_heads"]) for name in ("attention", "key_value")
    )
    shape = {"heads": heads, "kv_heads": kv_heads,
             "head_dim": int(files.config["hidden_size"]) // heads}  # fmt: skip
    runs: dict[str, Callable[[int], object]] = {}
    for form, block in (
        ("bf16", 16),
        ("f32", 16),
        ("bf16", 4),
        ("bf16", 8),
        ("bf16", 32),
        ("bf16", 128),
    ):
        for context in (64, 1500):
            runs[f"{form}/{block}/{context}"] = _attend(form, block, context, shape)
    return _quiet(runs, 5 * LAYERS)


def _attend(form: str, block: int, context: int, shape: dict[str, int]) -> Callable[[int], object]:
    source = np.random.default_rng(2)
    blocks = -(-context // block)
    extents = (blocks, block, shape["kv_heads"], shape["head_dim"])
    values = source.standard_normal(extents).astype(np.float32)
    caches = [xp.asarray(values, dtype=FORMATS[form], copy=True) for _ in range(2 * LAYERS)]
    width = shape["heads"] * shape["head_dim"]
    operands = (
        xp.asarray(source.standard_normal((1, width)).astype(np.float32), copy=True),
        xp.asarray(source.permutation(blocks).astype(np.int32)[None], copy=True),
        xp.asarray(np.array([0, 1], np.int32), copy=True),
        xp.asarray(np.array([context], np.int32), copy=True),
    )

    def run(index: int) -> object:
        layer = index % LAYERS
        return ops.paged_attention(
            operands[0], caches[layer], caches[LAYERS + layer], *operands[1:],
            block_tokens=block, max_query_len=1, heads=shape["heads"],
            kv_heads=shape["kv_heads"], head_dim=shape["head_dim"],
        )  # fmt: skip

    return run


def _sampling(files: ModelFiles) -> dict[str, float]:
    """Seconds of choosing a token, and of its log-probabilities; eight rows at a time."""
    vocabulary, rows = int(files.config["vocab_size"]), 8
    logits = np.random.default_rng(3).standard_normal((rows, vocabulary)).astype(np.float32) * 4
    runs: dict[str, Callable[[int], object]] = {
        "greedy": _choose(logits, 0.0, 1.0),
        "temperature": _choose(logits, 1.0, 1.0),
        "top_p": _choose(logits, 1.0, 0.9),
        "logprobs": lambda _: top_logprobs(logits, 5),
    }
    return {name: seconds / rows for name, seconds in _quiet(runs, LAYERS).items()}


def _choose(logits: Any, temperature: float, top_p: float) -> Callable[[int], object]:
    rows = len(logits)
    placed = xp.asarray(logits, copy=True)
    heat, nucleus, least = (
        xp.asarray(np.full(rows, value, np.float32), copy=True) for value in (temperature, top_p, 0)
    )
    whole = [xp.asarray(np.zeros(rows, np.int32), copy=True) for _ in range(2)]
    seeds = xp.asarray(np.arange(rows, dtype=np.int64), copy=True)
    return lambda _: ops.sample(placed, heat, whole[0], nucleus, least, seeds, whole[1])


def _dispatch() -> float:
    """Seconds that Python needs to launch an operation."""
    values = np.ones((32, 32), np.float32)
    weights, x = ops.pack(values, "f32", (32, 32)), xp.asarray(values[:1], copy=True)
    return _quiet({"": lambda _: ops.linear(x, weights)}, 400)[""]
