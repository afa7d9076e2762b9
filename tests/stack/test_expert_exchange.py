"""Wide expert parallelism: dispatch and combine against DeepEP's table, DeepSeek's serving day."""

from __future__ import annotations

import pytest

from assay.validate.cases import Case
from assay.validate.points import GroupedPoints
from assay.validate.serving.deployments import deployment_of
from assay.validate.serving.predict import values_of

Values = dict[str, float]
DECODE = "serving.decode."


def deployment(gpu: str, ranks: int, sequences: int, context: int) -> Values:
    """DeepSeek-V3 with attention on every rank and experts over all of them."""
    inputs = {
        "gpu": gpu, "model": "deepseek-ai/DeepSeek-V3", "precision": "fp8", "backend": "sglang",
        "isl": context, "osl": 2, "batch": sequences * ranks, "tp": 1, "dp": ranks, "ep": ranks,
        "moe_tp": 1, "moe_ep": ranks, "mode": "static batch",
    }  # fmt: skip
    case = Case("wide-1", "inference", inputs, {"step_ms": 1.0}, {"title": "a test"})
    # Each rank schedules its own requests.
    return values_of(deployment_of(case)) | {"serving.batch_limit": float(sequences * ranks)}


def ask(values: Values, *names: str) -> list[float]:
    found = GroupedPoints([values]).evaluate([f"{DECODE}{name}" for name in names])
    return [float(column[0]) for column in found.values()]


# DeepSeek-AI 2025, DeepEP, docs/legacy.md: microseconds of low-latency kernels on H800 with
# 400 Gb/s adapters, 128 tokens of 7168 elements a rank, eight experts a token, FP8 out, BF16 back.
@pytest.mark.parametrize(
    ("ranks", "dispatch", "combine"),
    [(16, 118, 195), (32, 155, 273), (64, 173, 314), (128, 192, 369), (256, 194, 360)],
)
def test_dispatch_and_combine_take_what_deepep_measured(
    ranks: int, dispatch: float, combine: float
) -> None:
    values = deployment("H800", ranks, 128, 64)
    found = ask(values, "exchange.dispatch_time", "exchange.combine_time")
    assert found[0] * 1e6 == pytest.approx(dispatch, rel=0.13)
    assert found[1] * 1e6 == pytest.approx(combine, rel=0.13)


def test_experts_of_one_node_gather_and_those_of_several_exchange() -> None:
    inside, across = (deployment("H800", ranks, 64, 4096) for ranks in (8, 16))
    for values, is_exchanged in ((inside, 0.0), (across, 1.0)):
        default = ask(values, "reduction_time")
        assert ask(values | {"serving.expert_exchange": is_exchanged}, "reduction_time") == default
        other = ask(values | {"serving.expert_exchange": 1 - is_exchanged}, "reduction_time")
        assert other != default


def test_two_micro_batches_hide_the_exchange_and_read_weights_twice() -> None:
    whole = deployment("H800", 144, 88, 4989)
    halves = whole | {"serving.micro_batches": 2.0}
    names = ("reduction_time", "attention_time", "feed_forward_time", "size", "tokens")
    one, two = ask(whole, *names), ask(halves, *names)
    assert one[0] > 0.01
    assert two[0] == 0
    assert two[1] == pytest.approx(one[1], rel=0.05)
    assert two[2] > one[2]
    assert two[3] > one[3]
    assert two[4] == one[4] / 2


def test_exchange_that_computation_cannot_hide_is_exposed() -> None:
    slow = deployment("H800", 144, 88, 4989) | {
        "serving.micro_batches": 2.0, "interconnect.nic.line_rate": 1e9,
    }  # fmt: skip
    names = ("exchange.dispatch_time", "exchange.combine_time", "reduction_time")
    dispatch, combine, exposed = ask(slow, *names)
    (logits,) = ask(slow, "logits.time")
    parts = ("projection_time", "attention_time", "feed_forward_time", "pass_time")
    computing = sum(ask(slow, *parts)) + 2 * logits
    layers_of_experts = 58
    assert exposed == pytest.approx(2 * layers_of_experts * (dispatch + combine) - computing)


def test_a_scheduler_handles_the_requests_of_its_replica() -> None:
    few, many = (deployment("H800", ranks, 88, 64) for ranks in (16, 144))
    assert ask(few, "host_time") == pytest.approx(ask(many, "host_time"))


FLASH_MLA = 660e12
"""FLOP/s of decode attention over latents on an H800: DeepSeek-AI 2025, FlashMLA, README."""


def test_decode_of_deepseeks_serving_day() -> None:
    """DeepSeek-V3/R1 Inference System Overview, 2025: 14,800 tokens/s a node of eight, 20 to 22 a
    user, context 4,989, EP144 with two micro-batches."""
    sequences = round(14800 / 8 / 21)
    values = deployment("H800", 144, sequences, 4989) | {"serving.micro_batches": 2.0}
    flops, time = ask(values, "decode_full.flops", "decode_full.time")
    values["serving.decode_slowdown"] = flops / FLASH_MLA / time
    (step,) = ask(values, "time")
    assert step == pytest.approx(1 / 21, rel=0.2)
