"""Steps, FLOPs and runs against published formulas and figures; scaling with hidden size."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from assay.catalog import models
from assay.model import Registry
from assay.scenario import Preset, preset
from assay.stack import registry as whole_stack

SCENARIO = "llama3_70b_64_h100"
HOUR = 3600.0


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


@pytest.fixture(scope="module")
def scenario() -> Preset:
    return preset(SCENARIO)


def gpt(hidden: int, layers: int, heads: int) -> dict[str, float]:
    return models.from_dimensions(
        layers=layers, hidden=hidden, heads=heads, vocabulary=51200, model_type="mpt",
        intermediate_size=4 * hidden,
    ).given  # fmt: skip


@pytest.mark.parametrize("batch", [1, 1536])
def test_operations_of_a_step_are_those_of_narayanan_et_al(registry: Registry, batch: int) -> None:
    hidden, layers, sequence, vocabulary = 12288, 96, 2048, 51200
    given: dict[str, Any] = {
        **gpt(hidden, layers, 96),
        "architecture.sequence": f"{sequence} token",
        "training.batch": batch,
    }
    body = 72 * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden))
    logits = 6 * batch * sequence * hidden * vocabulary
    found = registry.resolve("training.flops_per_step", given=given)
    assert found.value == pytest.approx(body + logits, rel=1e-12)
    executed = registry.resolve(
        "training.executed_flops", given={**given, "parallelism.recompute": 2}
    )
    assert executed.value == pytest.approx(body * 4 / 3 + logits, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "tokens", "flops"),
    [("gpt-3-175b", 3e11, 3.1422e23), ("llama-3.1-405b", 15.6e12, 3.7988e25)],
)
def test_six_operations_a_parameter_and_token(
    registry: Registry, name: str, tokens: float, flops: float
) -> None:
    found = registry.resolve("architecture.parameters", given=dict(models.find(name).given))
    # The count differs by biases and gains of norms, a few in ten thousand.
    assert 6 * found.value * tokens == pytest.approx(flops, rel=3e-4)


def test_cost_of_deepseek_v3(registry: Registry) -> None:
    given: dict[str, Any] = {
        "training.gpus": "2048 GPU",
        "training.run_yield": 1,
        "training.time_to_train": f"{2.788e6 / 2048} h",
    }
    hours = registry.resolve("training.gpu_hours", given=given)
    assert hours.value is not None
    # DeepSeek-V3 Technical Report, Table 1: 2.788 million hours at 2 USD are 5.576 million USD.
    assert hours.value / HOUR * 2.0 == pytest.approx(5.576e6, rel=1e-12)


def test_bubble_is_idle_time_over_busy_time(registry: Registry, scenario: Preset) -> None:
    changes: dict[str, Any] = {"parallelism.pipeline": 8, "parallelism.interleave": 5}
    outputs = ["training.bubble_time", "training.kernels_time", "training.inner_traffic_time"]
    outputs += ["training.pipeline.hop_time", "parallelism.micro_batches"]
    outputs += ["training.head.extra_time", "training.accumulation.time"]
    values = _values(registry, scenario, changes, outputs)
    bubble, kernels, traffic, hop, passes, head, adding = values
    stage = (kernels + traffic) / passes - head - adding
    assert bubble == pytest.approx(7 / 5 * (stage + hop), rel=1e-9)


# Expected largest of n standard normal variates: Harter 1961, Expected values of normal order
# statistics, Biometrika 48, Table 1; 1,000 by numerical integration.
LARGEST = {2: 0.56419, 5: 1.16296, 8: 1.42360, 100: 2.50759, 1000: 3.24144}


@pytest.mark.parametrize("gpus", [1, *LARGEST])
def test_straggling_is_the_expected_slowest_of_the_gpus(registry: Registry, gpus: int) -> None:
    given = {"training.gpus": gpus, "training.gpu_spread": 0.02}
    found = registry.resolve("training.straggling", given=given).require_value()
    assert (found - 1) / 0.02 == pytest.approx(LARGEST.get(gpus, 0.0), rel=1e-3)


ONE_STAGE: dict[str, Any] = {
    "parallelism.pipeline": 1, "parallelism.interleave": 1, "parallelism.tensor": 1,
    "parallelism.context": 1, "parallelism.recompute": 0,
}  # fmt: skip


@pytest.mark.parametrize("stage", [1, 3])
def test_error_of_exchanges_is_of_the_time_that_sharding_adds(
    registry: Registry, scenario: Preset, stage: int
) -> None:
    layout = {**ONE_STAGE, "parallelism.zero_stage": stage}
    outputs = ["training.step_time", "training.data_traffic_time", "training.straggling"]
    one, two = (
        _values(registry, scenario, {**layout, "training.model_error.sharded": error}, outputs)
        for error in (1.0, 2.0)
    )
    added = one[1] * one[2] if stage == 3 else 0.0
    assert two[0] - one[0] == pytest.approx(added, rel=1e-9)


def test_error_of_attention_is_of_its_time(registry: Registry, scenario: Preset) -> None:
    layout = {**ONE_STAGE, "parallelism.zero_stage": 1}
    names = ("attention.forward_time", "attention.backward_time", "straggling", "step_time")
    outputs = ["parallelism.micro_batches", *(f"training.{name}" for name in names)]
    one, two = (
        _values(registry, scenario, {**layout, "training.model_error.attention": error}, outputs)
        for error in (1.0, 2.0)
    )
    passes, forward, backward, straggling, step = one
    layers = 80
    expected = straggling * passes * layers * (forward + backward)
    assert two[-1] - step == pytest.approx(expected, rel=1e-9)


def test_selective_recomputation_of_pytorch_gathers_tokens_again(
    registry: Registry, scenario: Preset
) -> None:
    layout = {
        **ONE_STAGE, "parallelism.tensor": 8, "parallelism.recompute": 1,
        "parallelism.sequence_parallel": 1, "software.tensor_overlap": 0,
    }  # fmt: skip
    outputs = ["training.layer.traffic_time", "training.tensor.time", "training.tensor.gather.time"]
    kept, again = (
        _values(registry, scenario, {**layout, "software.selective_products": again}, outputs)
        for again in (0, 1)
    )
    assert kept[0] == pytest.approx(2 * kept[1], rel=1e-9)
    assert again[0] == pytest.approx(2 * again[1] + 2 * again[2], rel=1e-9)


def test_stages_of_one_node_send_over_its_links(registry: Registry, scenario: Preset) -> None:
    rates: dict[str, Any] = {
        "interconnect.link.rate": "400 GB/s", "interconnect.nic.rate": "40 GB/s",
        "parallelism.pipeline": 2, "parallelism.tensor": 4, "interconnect.node_ranks": 8,
    }  # fmt: skip
    times = {
        gpus: _values(
            registry, scenario, {**rates, "training.gpus": gpus}, ["training.pipeline.hop_time"]
        )[0]
        for gpus in (8, 16)
    }
    assert times[16] == pytest.approx(10 * times[8], rel=1e-9)


def _values(
    registry: Registry, scenario: Preset, changes: dict[str, Any], outputs: list[str]
) -> list[float]:
    given = {**scenario.given, **changes}
    found = registry.compile(
        inputs=["training.batch"], outputs=outputs,
        given={name: value for name, value in given.items() if name != "training.batch"},
    )(128.0)  # fmt: skip
    return [float(value) for value in found]


COUPLED = (
    "architecture.parameters",
    "parallelism.memory.total",
    "training.tensor.time",
    "training.data.scatter.time",
    "training.pipeline.hop_time",
    "training.flops_per_step",
    "training.kernels_time",
    "training.update.time",
    "training.step_time",
    "training.tokens_per_second",
)


def test_hidden_size_scales_memory_traffic_flops_and_time(
    registry: Registry, scenario: Preset
) -> None:
    narrow = _values(registry, scenario, {}, list(COUPLED))
    wide = _values(registry, scenario, {"architecture.hidden": 16384}, list(COUPLED))
    moved = dict(zip(COUPLED, np.array(wide) / np.array(narrow), strict=True))
    falls = ("training.tokens_per_second",)
    assert {n: r for n, r in moved.items() if abs(r - 1) < 1e-3} == {}
    for name, ratio in moved.items():
        assert (ratio < 1) == (name in falls), name


CHOICES: dict[str, list[float]] = {
    "parallelism.tensor": [1, 2, 4, 8],
    "parallelism.pipeline": [1, 2, 4, 8, 16],
    "parallelism.interleave": [1, 2, 4, 5, 10, 20],
    "parallelism.context": [1, 2],
    "parallelism.micro_batch": [1, 2, 4],
    "parallelism.zero_stage": [0, 1, 2, 3],
    "parallelism.recompute": [0, 1, 2],
    "parallelism.sequence_parallel": [0, 1],
}
GPUS, BATCH, LAYERS, HEADS = 64, 128, 80, 64


def is_valid(layout: dict[str, float]) -> bool:
    """The rules of a layout, written out on their own."""
    t, p, v, c, b = (layout[f"parallelism.{name}"] for name in (
        "tensor", "pipeline", "interleave", "context", "micro_batch",
    ))  # fmt: skip
    replicas = GPUS / (t * p * c)
    passes = BATCH / (replicas * b)
    return (
        replicas >= 1
        and replicas.is_integer()
        and passes.is_integer()
        and HEADS % t == 0
        and (LAYERS % (p * v) == 0 or (LAYERS + 2) % (p * v) == 0)
        and (v == 1 or (p > 1 and passes % p == 0))
    )


def test_minimize_layout_matches_exhaustive_enumeration(
    registry: Registry, scenario: Preset
) -> None:
    names = list(CHOICES)
    layouts = [
        layout
        for values in itertools.product(*CHOICES.values())
        if is_valid(layout := dict(zip(names, values, strict=True)))
    ]
    given = {name: value for name, value in scenario.given.items() if name not in CHOICES}
    outputs = ["training.step_time", "parallelism.memory.total", "gpu.memory.capacity"]
    function = registry.compile(inputs=names, outputs=outputs, given=given)
    columns = [np.array([layout[name] for layout in layouts], dtype=float) for name in names]
    step, memory, capacity = function(*columns)
    best = float(np.min(np.where(memory <= capacity, step, np.inf)))

    optimum = registry.minimize("training.step_time", over=CHOICES, given=given)
    assert optimum.value == pytest.approx(best, rel=1e-12)
    assert is_valid({name: float(optimum.choices[name]) for name in names})
    assert optimum.evaluated == np.prod([len(values) for values in CHOICES.values()])
    assert optimum.method == "enumeration"
    assert not any("point by point" in note for note in optimum.notes)
