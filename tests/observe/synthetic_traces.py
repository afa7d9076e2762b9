"""Traces of a made-up decoder at work, as large as wanted: kernels, launches, host sections."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

# Operation, kernel, mean duration in ns for decode; prefill takes longer.
LAYER = (
    ("input_norm", "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(...)", 2_400),
    ("qkv_proj", "nvjet_tst_128x64_64x6_2x1_v_bz_TNT", 11_000),
    ("rope", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, ...)", 2_100),
    ("kv_cache_write", "void vllm::reshape_and_cache_flash_kernel<...>(...)", 1_900),
    (
        "attention",
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(...)",
        14_000,
    ),
    ("o_proj", "nvjet_tst_64x32_64x16_4x1_v_bz_TNT", 8_200),
    ("post_attention_norm", "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(...)", 2_400),
    ("gate_up_proj", "nvjet_tst_192x128_64x4_2x1_v_bz_coopA_TNT", 41_000),
    ("activation", "void vllm::act_and_mul_kernel<c10::BFloat16, silu>(...)", 3_100),
    ("down_proj", "nvjet_tst_64x64_64x13_4x1_v_bz_TNT", 22_000),
)
HEAD = (("embedding", "void at::native::vectorized_gather_kernel<16, long>(...)", 2_000),)
TAIL = (
    ("final_norm", "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(...)", 2_400),
    ("lm_head", "nvjet_tst_128x128_64x6_2x1_v_bz_TNT", 180_000),
    ("sampling", "void at::native::reduce_kernel<512, 1, ArgMaxOps<float>>(...)", 9_000),
)
EVENTS_PER_KERNEL = 3
"""A kernel, the API call that launches it, the framework's operation around that."""


def synthetic_trace(
    events: int = 3_000, *, layers: int = 32, devices: int = 1, seed: int = 7, mapped: bool = True
) -> Trace:
    """A trace of about so many events: a step of prefill, then decode."""
    generator = np.random.default_rng(seed)
    nodes = [*HEAD, *(LAYER * layers), *TAIL]
    layer = [None, *np.repeat(np.arange(layers), len(LAYER)).tolist(), *[None] * len(TAIL)]
    per_step = len(nodes) * EVENTS_PER_KERNEL + 2
    steps = max(math.ceil(events / per_step / devices), 1)
    frames, rows = [], []
    for device in range(devices):
        frame, step_rows = _rank(generator, nodes, layer, steps, device, mapped)
        frames.append(frame)
        rows += step_rows
    table = pl.DataFrame(rows, schema=schema.step_columns())
    header = TraceHeader(
        source="kineto",
        engine="vllm",
        model="synthetic-decoder",
        clock="realtime",
        processes={"4000": "python", "4000/4000": "main", "4001": "python"},
    )
    return Trace(header, pl.concat(frames), table)


def _rank(
    generator: np.random.Generator,
    nodes: list[tuple[str, str, int]],
    layer: list[int | None],
    steps: int,
    device: int,
    mapped: bool,
) -> tuple[pl.DataFrame, list[dict[str, object]]]:
    count = len(nodes)
    mean = np.array([node[2] for node in nodes], float)
    scale = np.where(np.arange(steps) == 0, 6.0, 1.0)[:, None]
    dur = (generator.lognormal(0, 0.06, (steps, count)) * mean * scale).astype(np.int64)
    gap = generator.integers(300, 1_500, (steps, count))
    # Between steps the device waits for the host.
    gap[:, 0] = generator.integers(60_000, 200_000, steps)
    end = np.cumsum((dur + gap).ravel()).reshape(steps, count) + 1_790_857_026_000_000_000
    start = end - dur
    op_start, op_dur = start - gap // 2 - 9_000, np.full_like(dur, 240)
    api_start, api_dur = op_start + 60, np.full_like(dur, 120)
    first, last = op_start[:, :1] - 20_000, end[:, -1:]
    number = np.arange(steps)
    correlation = (np.arange(steps * count) + 1).reshape(steps, count)
    names = pl.Series([node[1] for node in nodes])
    ops = pl.Series([node[0] for node in nodes])

    def frame(kind: str, starts: np.ndarray, durations: np.ndarray, **more: object) -> pl.DataFrame:
        total = starts.size
        data = {"start_ns": starts.ravel(), "dur_ns": durations.ravel(), **more}
        made = pl.DataFrame(data).with_columns(
            pl.lit(kind).alias("kind"), pl.lit(device, pl.Int32).alias("rank")
        )
        assert made.height == total
        absent = [
            pl.lit(None, kind_).alias(name)
            for name, kind_ in schema.event_columns().items()
            if name not in made.columns
        ]
        return made.with_columns(absent).select(
            pl.col(name).cast(kind_) for name, kind_ in schema.event_columns().items()
        )

    def tiled(values: list[object] | pl.Series) -> pl.Series:
        return pl.concat([pl.Series(values)] * steps)

    phase = ["prefill", *["decode"] * (steps - 1)]
    tags = {
        "step": np.repeat(number, count),
        "phase": np.repeat(np.array(phase), count),
        "layer": tiled(pl.Series(layer, dtype=pl.Int32)),
        "op": tiled(ops),
    }
    on_host = {"pid": np.full(steps * count, 4_000 + device), "tid": np.full(steps * count, 4_000)}
    kernels = frame(
        "kernel",
        start,
        dur,
        name=tiled(names),
        device=np.full(steps * count, device),
        stream=np.full(steps * count, 7),
        pid=np.full(steps * count, device),
        tid=np.full(steps * count, 7),
        correlation=correlation.ravel(),
        grid=np.tile(np.array([[132, 1, 1]]), (steps * count, 1)),
        block=np.tile(np.array([[256, 1, 1]]), (steps * count, 1)),
        args=tiled([f'{{"registers per thread": {32 + 8 * (n % 12)}}}' for n in range(count)]),
        **(tags if mapped else {}),
    )
    launches = frame(
        "api", api_start, api_dur, name=["cudaLaunchKernelExC"] * (steps * count),
        correlation=correlation.ravel(), **on_host,
    )  # fmt: skip
    operations = frame(
        "host", op_start, op_dur,
        name=tiled([f"aten::{node[0]}" for node in nodes]), external=correlation.ravel(), **on_host,
    )  # fmt: skip
    one = {"pid": np.full(steps, 4_000 + device), "tid": np.full(steps, 4_000)}
    ranges = frame(
        "range", first, last - first, name=[f"execute_model {n}" for n in range(steps)],
        step=number, **one,
    )  # fmt: skip
    waits = frame(
        "sync", op_start[:, -1:] + 400, last - op_start[:, -1:] - 400,
        name=["cudaEventSynchronize"] * steps, step=number, **one,
    )  # fmt: skip
    rows: list[dict[str, object]] = [
        {
            "step": n,
            "rank": device,
            "phase": phase[n],
            "start_ns": int(first[n, 0]),
            "dur_ns": int(last[n, 0] - first[n, 0]),
            "device_ns": int(dur[n].sum()),
            "batch": 1 if n == 0 else 64,
            "source": "annotation",
        }
        for n in range(steps)
    ]
    return pl.concat([kernels, launches, operations, ranges, waits]), rows
