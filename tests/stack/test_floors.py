"""No predicted time lies below its floor: bytes that must move, FLOPs that must run.

Random models, batches, formats and accelerators through one compiled tape; the floors are
computed here, from shapes and data sheets, not by the stack.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.catalog import accelerators, constants, engines, models
from assay.model import Registry
from assay.scenario import preset
from assay.stack import registry as whole_stack
from assay.validate.kernels.operations import DEVICE_INPUTS, device, solved
from assay.validate.serving.predict import hardware

Column = NDArray[np.float64]
Columns = dict[str, Column]

SYSTEMS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "l40s", "h20_sxm", "gh200", "mi300x")
ENGINES = ("vllm", "sglang", "trtllm")
POINTS = 3000
ROUNDING = 1 - 1e-9


@pytest.fixture(scope="module")
def stack() -> Registry:
    return whole_stack()


def pick(random: np.random.Generator, *values: float) -> float:
    return float(random.choice(values))


def log_uniform(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.round(np.exp(random.uniform(np.log(low), np.log(high)))))


def evaluate(stack: Registry, rows: list[dict[str, float]], outputs: list[str]) -> Columns:
    """Every output at every row; all rows must state the same inputs."""
    names = sorted(rows[0])
    assert all(sorted(row) == names for row in rows)
    columns = np.array([[row[name] for row in rows] for name in names])
    found = stack.compile(inputs=names, outputs=outputs)(*columns)
    return dict(zip(outputs, np.asarray(found), strict=True))


def peaks(system: str) -> tuple[float, float]:
    facts = device(system)
    return facts["kernels.device.memory_bandwidth"], facts["kernels.device.peak_flops"]


def rate_multiple(system: str, bits: float) -> float:
    """Peak of a format over that of 16 bits; zero where the tensor cores lack it."""
    return 1.0 if bits > 8 else device(system)["gpu.rate_8bit" if bits > 4 else "gpu.rate_4bit"]


# --- kernels ------------------------------------------------------------------------------------


@cache
def kernel_constants(system: str, engine: str) -> dict[str, float]:
    calibration = str(accelerators.find(system).facts.get("calibration") or system)
    fitted = constants.given(
        calibration, engine if engine in constants.engines(calibration) else None
    )
    return {name: value for name, value in fitted.items() if name.startswith("kernels.")}


def kernel_rows(random: np.random.Generator, scope: str) -> tuple[list[dict[str, float]], Column]:
    """Random shapes of one kernel, and the floor of each."""
    rows, floors = [], []
    for _ in range(POINTS // 2):
        system = str(random.choice(SYSTEMS))
        shape, read, flops, bits = SHAPES[scope](random)
        if rate_multiple(system, bits) == 0:
            continue
        bandwidth, peak = peaks(system)
        rows.append({
            **kernel_constants(system, str(random.choice(ENGINES))),
            **{name: device(system)[name] for name in DEVICE_INPUTS},
            **{f"kernels.{scope}.{name}": value for name, value in shape.items()},
        })  # fmt: skip
        floors.append(max(read / bandwidth, flops / (peak * rate_multiple(system, bits))))
    return rows, np.array(floors)


Shape = tuple[dict[str, float], float, float, float]


def gemm(random: np.random.Generator) -> Shape:
    m, n, k = (log_uniform(random, 1, 32768) for _ in range(3))
    bits, element = FORMATS[random.integers(len(FORMATS))]
    shape = {
        "rows": m, "columns": n, "depth": k, "bits": bits, "weight_element": element,
        "activation_element": max(bits / 8, 0.5), "output_element": 2.0,
        "weight_footprint": 1e15, "activation_footprint": m * k * 2,
        "toggling": pick(random, 0, 1), "casting": pick(random, 0, 1),
    }  # fmt: skip
    return shape, n * k * element, 2 * m * n * k, bits


def experts(random: np.random.Generator) -> Shape:
    tokens, count = log_uniform(random, 1, 16384), pick(random, 8, 32, 128, 256, 512)
    chosen = pick(random, 1, 2, 4, 8)
    n, k = log_uniform(random, 128, 16384), log_uniform(random, 128, 16384)
    bits, element = FORMATS[random.integers(len(FORMATS))]
    shape = {
        "tokens": tokens, "experts": count, "chosen": chosen, "columns": n, "depth": k,
        "bits": bits, "weight_element": element, "activation_element": max(bits / 8, 1.0),
    }  # fmt: skip
    touched = count * (1 - (1 - chosen / count) ** tokens)
    return shape, touched * n * k * element, 2 * tokens * chosen * n * k, bits


def decode(random: np.random.Generator) -> Shape:
    batch, context = log_uniform(random, 1, 1024), log_uniform(random, 1, 131072)
    kv_heads, group = pick(random, 1, 2, 4, 8, 32), pick(random, 1, 4, 8, 16, 128)
    width = pick(random, 64, 128, 192, 576)
    shape = {
        "batch": batch, "context": context, "window": 0.0, "heads": kv_heads * group,
        "kv_heads": kv_heads, "width": width, "value_width": width, "element": 2.0,
        "kv_element": 2.0, "footprint": 1e15,
    }  # fmt: skip
    read = batch * context * kv_heads * 2 * width * 2
    return shape, read, 4 * batch * context * kv_heads * group * width, 16


def prefill(random: np.random.Generator) -> Shape:
    batch, length = log_uniform(random, 1, 64), log_uniform(random, 16, 65536)
    before = pick(random, 0, 1, 4) * length
    kv_heads, group = pick(random, 1, 2, 8, 32), pick(random, 1, 4, 8)
    width = pick(random, 64, 128, 192)
    shape = {
        "batch": batch, "length": length, "keys": before + length, "window": 0.0,
        "heads": kv_heads * group, "kv_heads": kv_heads, "width": width, "value_width": width,
        "element": 2.0, "kv_element": 2.0, "caching": 1.0, "bits": 16.0,
    }  # fmt: skip
    pairs = length * before + length * (length + 1) / 2
    # Keys and values of earlier chunks; the queries may still be in the cache.
    read = batch * before * kv_heads * 2 * width * 2
    return shape, read if read > 1e9 else 0.0, 4 * batch * kv_heads * group * width * pairs, 16


FORMATS = ((16.0, 2.0), (16.0, 1.0), (16.0, 0.5625), (8.0, 1.0), (4.0, 0.5625))
SHAPES = {"gemm": gemm, "experts": experts, "decode": decode, "prefill": prefill}


@pytest.mark.parametrize("scope", list(SHAPES))
def test_no_kernel_is_faster_than_its_bytes_and_flops(stack: Registry, scope: str) -> None:
    rows, floors = kernel_rows(np.random.default_rng(0), scope)
    time = evaluate(stack, rows, [f"kernels.{scope}.time"])[f"kernels.{scope}.time"]
    below = time < floors * ROUNDING
    assert not below.any(), [(floors[i] / time[i], rows[i]) for i in np.flatnonzero(below)[:3]]


# --- fewer bits ---------------------------------------------------------------------------------

NAMED = {"gemm": "casting_time", "experts": "scaling_time"}
"""What operands of 8 bits cost besides: quantized activations, block scales."""


@pytest.mark.parametrize("scope", list(NAMED))
def test_fewer_bits_are_slower_only_by_a_named_cost(stack: Registry, scope: str) -> None:
    rows = kernel_rows(np.random.default_rng(4), scope)[0]

    def times(bits: float, weight: float, activation: float) -> tuple[Column, Column]:
        own = {"bits": bits, "weight_element": weight, "activation_element": activation}
        changed = [row | {f"kernels.{scope}.{name}": v for name, v in own.items()} for row in rows]
        names = [f"kernels.{scope}.time", f"kernels.{scope}.{NAMED[scope]}"]
        found = evaluate(stack, changed, names)
        fixed = (
            [row[f"kernels.{scope}.eight_bit_time"] for row in rows] if scope == "experts" else 0
        )
        return found[names[0]], found[names[1]] + np.array(fixed) * (bits <= 8)

    wide, none = times(16, 2, 2)
    assert (none == 0).all()
    for packed in (1.0, 0.5625):
        narrow, _ = times(16, packed, 2)
        assert (narrow <= wide / ROUNDING).all()
    has_fp8 = np.array([row["gpu.rate_8bit"] for row in rows]) > 1
    narrow, named = times(8, 1, 1)
    slower = has_fp8 & (narrow > (wide + named) / ROUNDING)
    assert not slower.any(), [(narrow[i] / wide[i], rows[i]) for i in np.flatnonzero(slower)[:3]]


# --- serving ------------------------------------------------------------------------------------

CHOICES = {
    "serving.attention_replicas": 1.0, "serving.static": 0.0, "serving.separate": 0.0,
    "serving.pipeline": 1.0, "serving.group_limit": 1000.0, "serving.batch_limit": 1e6,
}  # fmt: skip


def random_model(random: np.random.Generator) -> dict[str, float]:
    """A model of the catalog, some with another number of layers, experts or another width."""
    name = str(random.choice(models.names()))
    shape = dict(models.find(name).given)
    if random.random() < 0.5:
        return shape
    if shape["architecture.experts"] > 0:
        shape["architecture.experts"] = pick(random, 16, 64, 128, 256)
        shape["architecture.expert_ffn"] = log_uniform(random, 4, 128) * 64
        shape["architecture.experts_per_token"] = pick(random, 2, 4, 8)
    else:
        shape["architecture.ffn"] = log_uniform(random, 8, 512) * 64
    return shape


RATES = (
    "gpu.memory.bandwidth", "gpu.peak_flops", "gpu.link.bandwidth", "gpu.multiprocessors",
    "gpu.cache.capacity", "gpu.memory.capacity",
)  # fmt: skip


@cache
def ceilings(system: str, engine: str) -> dict[str, float]:
    """Fitted constants and the rates that follow from a data sheet, which states them differently."""
    known = hardware(system, engine)
    rates = {name: solved(name, known) for name in RATES}
    return {**known, **rates}


def serving_rows(random: np.random.Generator) -> tuple[list[dict[str, float]], list[str]]:
    rows: list[dict[str, float]] = []
    systems = []
    while len(rows) < POINTS:
        system, engine = str(random.choice(SYSTEMS)), str(random.choice(ENGINES))
        client = str(random.choice(["inferencex", "closed_loop", "offline"]))
        bits, element = FORMATS[random.integers(len(FORMATS))]
        if rate_multiple(system, bits) == 0:
            continue
        row = {
            **ceilings(system, engine), **engines.given(engine, client), **random_model(random),
            **CHOICES, "serving.compute_bits": bits, "serving.expert_bits": bits,
            "serving.weight_bytes": element, "serving.expert_bytes": element,
            "serving.kv_bytes": pick(random, 1, 2), "serving.tensor": pick(random, 1, 2, 4, 8),
            "serving.expert": 1.0, "serving.concurrency": log_uniform(random, 1, 512),
            "serving.prompt": log_uniform(random, 16, 32768),
            "serving.output": log_uniform(random, 2, 4096),
            "serving.prompt_budget": pick(random, 2048, 8192),
        }  # fmt: skip
        if random.random() < 0.3 and row["architecture.experts"] > 0:
            row["serving.expert"] = row["serving.tensor"]
        rows.append(row)
        systems.append(system)
    named = set.intersection(*(set(row) for row in rows))
    # Data sheets differ in what they state besides what serving needs.
    return [{name: row[name] for name in named} for row in rows], systems


def test_no_iteration_is_faster_than_its_weights_and_flops(stack: Registry) -> None:
    rows, systems = serving_rows(np.random.default_rng(1))
    parts = ("projection_time", "attention_time", "feed_forward_time", "time", "tokens")
    outputs = [f"serving.{name}.{part}" for name in ("decode", "mixed", "burst") for part in parts]
    outputs += [
        "serving.decoding", "serving.context", "serving.step_time", "serving.kv.copies",
        "architecture.attention.matrices", "architecture.attention.layers",
        "architecture.expert.matrix_parameters", "architecture.expert_layers",
        "architecture.kv.full_elements_per_token",
    ]  # fmt: skip
    found = evaluate(stack, rows, outputs)

    def given(name: str) -> Column:
        return np.array([row[name] for row in rows])

    bandwidth, peak = np.array([peaks(system) for system in systems]).T
    bits = given("serving.compute_bits")
    rate = peak * [rate_multiple(s, b) for s, b in zip(systems, bits, strict=True)]
    element, ranks = given("serving.weight_bytes"), given("serving.tensor")
    experts = given("architecture.experts")
    routed = experts > 0
    chosen = given("architecture.experts_per_token")
    each = found["architecture.expert.matrix_parameters"] * found["architecture.expert_layers"]
    # The indexer of sparse attention is not among the projections.
    is_dense = given("architecture.index.tokens") == 0
    attention = np.where(
        is_dense,
        found["architecture.attention.matrices"] * found["architecture.attention.layers"],
        0,
    )
    violations = []

    def holds(what: str, time: Column, floor: Column) -> None:
        below = time < floor * ROUNDING
        violations.extend(
            (what, round(float(floor[i] / time[i]), 3), systems[i], rows[i])
            for i in np.flatnonzero(below)
        )

    for name in ("decode", "mixed", "burst"):
        time, tokens = found[f"serving.{name}.time"], found[f"serving.{name}.tokens"]
        with np.errstate(all="ignore"):
            share = np.where(routed, (1 - chosen / experts) ** np.maximum(tokens, 1), 1.0)
        touched = np.where(routed, experts * (1 - share), 0.0)
        feed_forward = found[f"serving.{name}.feed_forward_time"]
        expert_bytes = touched * each * given("serving.expert_bytes") / ranks
        holds(f"{name} experts read", feed_forward, expert_bytes / bandwidth)
        holds(f"{name} expert FLOPs", feed_forward,
              np.where(routed, 2 * tokens * chosen * each / ranks / rate, 0.0))  # fmt: skip
        attention_bytes = attention * element / ranks
        projection = found[f"serving.{name}.projection_time"]
        holds(f"{name} projections read", projection, attention_bytes / bandwidth)
        holds(f"{name} projection FLOPs", projection, 2 * tokens * attention / ranks / rate)
        holds(f"{name} weights read", time, (attention_bytes + expert_bytes) / bandwidth)
    cached = (
        found["serving.decoding"] * found["serving.context"] * found["architecture.kv.full_elements_per_token"]
        * given("serving.kv_bytes") * found["serving.kv.copies"] / ranks
    )  # fmt: skip
    holds("keys read", found["serving.decode.attention_time"],
          np.where(is_dense, cached, 0) / bandwidth)  # fmt: skip
    holds("step", found["serving.step_time"], found["serving.decode.time"])
    assert not violations, (len(violations), violations[:3])


# --- training -----------------------------------------------------------------------------------

TRAINED = "llama3_8b_8_h100_training"
TRAINING_SYSTEMS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")


def training_rows(random: np.random.Generator) -> tuple[list[dict[str, float]], list[str]]:
    known = {
        name: float(value)
        for name, value in preset(TRAINED).exact_inputs.given.items()
        if isinstance(value, int | float)
    }
    rows, systems = [], []
    for _ in range(POINTS // 2):
        system = str(random.choice(TRAINING_SYSTEMS))
        bits = pick(random, 16, 8) if system != "a100_sxm" else 16.0
        micro, tensor = pick(random, 1, 2, 4), pick(random, 1, 2, 4, 8)
        pipeline = pick(random, 1, 2, 4)
        replicas = pick(random, 1, 2, 8, 32)
        gpus = tensor * pipeline * replicas
        row = {
            **known, **ceilings(system, "vllm"), **random_model(random),
            "architecture.sequence": pick(random, 1024, 2048, 8192, 32768),
            "training.gpus": gpus, "training.compute_bits": bits,
            "training.batch": replicas * micro * pick(random, 1, 4, 16),
            "parallelism.tensor": tensor, "parallelism.pipeline": pipeline,
            "parallelism.micro_batch": micro, "parallelism.recompute": pick(random, 0, 1, 2),
            "parallelism.zero_stage": pick(random, 0, 1, 3) if pipeline == 1 else 1.0,
            "parallelism.sequence_parallel": float(tensor > 1),
            "training.load_share": random.uniform(0.7, 1.3),
            "training.narrow_share": random.uniform(0.8, 1.3),
            "training.backward_attention_share": random.uniform(0.5, 1.3),
        }  # fmt: skip
        rows.append(row)
        systems.append(system)
    named = set.intersection(*(set(row) for row in rows))
    return [{name: row[name] for name in named} for row in rows], systems


def test_no_training_step_is_faster_than_its_flops(stack: Registry) -> None:
    rows, systems = training_rows(np.random.default_rng(2))
    layers = "architecture.projection.parameters"
    outputs = [
        "training.step_time", "training.tokens_per_step", layers, "architecture.layers",
        "training.kernels_time", "training.layer.products_forward", "parallelism.tokens",
    ]  # fmt: skip
    found = evaluate(stack, rows, outputs)

    def given(name: str) -> Column:
        return np.array([row[name] for row in rows])

    peak = np.array([peaks(system)[1] for system in systems])
    rate = peak * [
        rate_multiple(s, b) for s, b in zip(systems, given("training.compute_bits"), strict=True)
    ]
    tokens = found["training.tokens_per_step"]
    logits = given("architecture.vocabulary") * given("architecture.hidden")
    # Forward and twice backward, two FLOPs a weight; recomputation repeats what is not stored.
    passes = np.where(given("parallelism.recompute") > 1.5, 4, 3)
    least = 2 * tokens * (passes * found[layers] / rate + 3 * logits / peak)
    floor = least / given("training.gpus")
    below = found["training.step_time"] < floor * ROUNDING
    assert not below.any(), [
        (floor[i] / found["training.step_time"][i], systems[i], rows[i])
        for i in np.flatnonzero(below)[:3]
    ]
    # One layer forward, on one GPU: its GEMMs alone.
    layer = 2 * found["parallelism.tokens"] * found[layers] / given("architecture.layers") / rate
    layer_floor = layer / given("parallelism.tensor")
    products = found["training.layer.products_forward"]
    below = products < layer_floor * ROUNDING
    assert not below.any(), [
        (layer_floor[i] / products[i], systems[i], rows[i]) for i in np.flatnonzero(below)[:3]
    ]


# --- collectives --------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_no_collective_is_faster_than_its_wire(stack: Registry, operation: str) -> None:
    random = np.random.default_rng(3)
    rows, floors = [], []
    for _ in range(400):
        system, engine = str(random.choice(SYSTEMS)), str(random.choice(ENGINES))
        size, ranks = log_uniform(random, 256, 8e9), pick(random, 2, 4, 8)
        known = ceilings(system, engine)
        names = [name for name in known if name.startswith(("collectives.", "interconnect."))]
        rows.append({
            **{name: known[name] for name in names},
            "gpu.link.bandwidth": known["gpu.link.bandwidth"], "collectives.size": size,
            "collectives.ranks": ranks, "collectives.direct": pick(random, 0, 1),
        })  # fmt: skip
        # A reducing switch takes every byte once; without one a rank sends nearly twice as many.
        reduces = operation == "all_reduce" and known["collectives.switch_share"] == 0
        wire = size * (ranks - 1) / ranks * (2 if reduces else 1)
        floors.append(wire / known["gpu.link.bandwidth"])
    named = set.intersection(*(set(row) for row in rows))
    name = f"collectives.node.{operation}.time"
    time = evaluate(stack, [{n: row[n] for n in named} for row in rows], [name])[name]
    assert (time >= np.array(floors) * ROUNDING).all()
