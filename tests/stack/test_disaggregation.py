"""Disaggregated prefill: its GPUs are counted, paid for and powered."""

from __future__ import annotations

import numpy as np
import pytest

from assay.model import Registry
from assay.scenario import preset
from assay.stack import registry as whole_stack

SCENARIO = "llama3_8b_h200_serving"
Given = dict[str, float]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


@pytest.fixture(scope="module")
def known() -> Given:
    given = preset(SCENARIO).exact_inputs.given
    return {name: float(v) for name, v in given.items() if isinstance(v, int | float)}


def ask(registry: Registry, name: str, given: Given) -> float:
    found = registry.resolve(name, given=dict(given), variants=preset(SCENARIO).variants).value
    assert found is not None
    return found


def loads(separate: float) -> list[Given]:
    random = np.random.default_rng(0)
    return [
        {
            "serving.separate": separate,
            "serving.prompt": float(2 ** random.integers(5, 15)),
            "serving.output": float(2 ** random.integers(1, 11)),
            "serving.concurrency": float(2 ** random.integers(0, 9)),
            "serving.tensor": float(2 ** random.integers(0, 3)),
            "serving.pipeline": float(2 ** random.integers(0, 2)),
        }
        for _ in range(300)
    ]


@pytest.mark.parametrize("separate", [0.0, 1.0])
def test_no_request_takes_less_gpu_time_than_its_flops(
    registry: Registry, known: Given, separate: float
) -> None:
    rows = [known | load for load in loads(separate)]
    names = sorted(rows[0])
    outputs = [
        "serving.gpus", "serving.request_rate", "architecture.projection.parameters",
        "kernels.device.peak_flops",
    ]  # fmt: skip
    columns = np.array([[row[name] for row in rows] for name in names])
    variants = preset(SCENARIO).variants
    function = registry.compile(inputs=names, outputs=outputs, variants=variants)
    gpus, rate, weights, peak = function(*columns)
    tokens = np.array([row["serving.prompt"] + row["serving.output"] - 1 for row in rows])
    # Two FLOPs a weight and token, prompt and answer alike.
    floor = 2 * weights * tokens / peak
    assert (gpus / rate >= floor * (1 - 1e-9)).all(), np.max(floor / (gpus / rate))


def test_prefill_keeps_up_with_decode(registry: Registry, known: Given) -> None:
    apart = known | {"serving.separate": 1.0, "serving.prompt": 8192.0, "serving.output": 256.0}
    names = ("prefill_instances", "request_rate", "prompt_throughput", "gpus", "instance_gpus")
    instances, rate, prompts, gpus, each = (
        ask(registry, f"serving.{name}", apart) for name in names
    )
    assert instances * prompts == pytest.approx(rate * 8192)
    assert gpus == pytest.approx(each * (1 + instances))
    # GPU time of a request: its prefill and its share of the decode GPUs.
    share = ask(registry, "serving.end_to_end_time", apart) / apart["serving.concurrency"]
    spent = ask(registry, "serving.request_gpu_time", apart)
    assert spent == pytest.approx(each * (8192 / prompts + share))


@pytest.mark.parametrize("prompt", [1024.0, 8192.0])
def test_prefill_gpus_are_paid_for_and_powered(
    registry: Registry, known: Given, prompt: float
) -> None:
    together = known | {"serving.prompt": prompt}
    apart = together | {"serving.separate": 1.0}
    per_token = "econ.cost.per_output_token"
    rate = ask(registry, "econ.serving.rate", apart)
    # Cost grows with the GPUs, of which prefill has its share.
    gpus = ask(registry, "serving.gpus", apart)
    assert gpus > 1
    alone = apart | {"serving.gpus": 1.0}
    assert rate == pytest.approx(gpus * ask(registry, "econ.serving.rate", alone), rel=1e-6)
    # Splitting the phases of an unloaded interconnect saves what mixing them cost, never prefill.
    prefill = prompt / ask(registry, "serving.prompt_throughput", apart)
    spent = ask(registry, "serving.request_gpu_time", apart)
    assert spent > prefill
    assert ask(registry, per_token, apart) > 0.8 * ask(registry, per_token, together)
