"""Experts on several ranks: the busiest one, and rows of the others' experts."""

from __future__ import annotations

import numpy as np
import pytest

from assay.catalog import engines, expert_formats, models
from assay.model import Registry
from assay.stack import registry as whole_stack
from assay.validate.serving.predict import hardware

CHOICES: dict[str, float] = {
    "tensor": 8, "pipeline": 1, "expert": 8, "attention_replicas": 1, "compute_bits": 16, "expert_bits": 16,
    "weight_bytes": 2, "expert_bytes": 2, "kv_bytes": 2, "prompt": 1024, "output": 256, "concurrency": 8, "batch": 8,
    "static": 1, "separate": 0, "group_limit": 1000,
}  # fmt: skip

BALANCED_US = {8: {128: 267.0, 512: 310.0, 1024: 376.0, 2048: 480.0, 4096: 734.0}}
"""Experts of Qwen3-235B over 8 ranks of an H100 in 16 bits by tokens of the batch, microseconds: aiconfigurator-core
0.12.0, h100_sxm, vLLM 0.24.0, balanced; from 128 tokens on nearly all experts are active by chance too."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def given(**changes: float) -> dict[str, float]:
    own = {f"serving.{name}": float(value) for name, value in (CHOICES | changes).items()}
    return {
        **hardware("h100_sxm"),
        **engines.given("vllm", "inferencex"),
        **models.find("qwen3-235b-a22b").given,
        **own,
    }


def ask(registry: Registry, name: str, values: dict[str, float]) -> float:
    return registry.resolve(name, given=dict(values)).require_value()


@pytest.mark.parametrize("tokens", [4, 8, 32])
@pytest.mark.parametrize("ranks", [2, 8])
def test_busiest_rank_is_that_of_drawn_routings(
    registry: Registry, tokens: int, ranks: int
) -> None:
    """Each token chooses 8 of 128 experts; ranks have 128/`ranks` of them each."""
    random = np.random.default_rng(0)
    most, mean = [], []
    for _ in range(1500):
        touched = np.zeros(128, bool)
        touched[random.random((tokens, 128)).argsort(axis=1)[:, :8]] = True
        by_rank = touched.reshape(ranks, -1).sum(axis=1)
        most.append(by_rank.max())
        mean.append(by_rank.mean())
    values = given(concurrency=tokens, batch=tokens, tensor=ranks, expert=ranks)
    prefix = "serving.decode.experts_up."
    assert ask(registry, prefix + "touched", values) == pytest.approx(np.mean(mean), rel=0.01)
    assert ask(registry, prefix + "busiest", values) == pytest.approx(np.mean(most), rel=0.04)


def test_one_rank_has_no_busiest(registry: Registry) -> None:
    values = given(tensor=8, expert=1)
    prefix = "serving.decode.experts_up."
    assert ask(registry, prefix + "busiest", values) == ask(registry, prefix + "touched", values)


def _experts_us(registry: Registry, tokens: float, values: dict[str, float]) -> float:
    """Both GEMMs of a layer as the table times them: every token's rows even over the ranks."""
    unslowed = values | {
        "serving.concurrency": tokens, "serving.batch": tokens, "serving.largest_rank": 0.0,
    }  # fmt: skip
    prefix = "serving.decode.experts_"
    return 1e6 * sum(ask(registry, f"{prefix}{part}.time", unslowed) for part in ("up", "down"))


def test_rows_of_other_ranks_cost_what_tables_say(registry: Registry) -> None:
    """Without them 4,096 tokens would take 42 % less than the table has."""
    kernels = expert_formats.in_16_bits("h100_sxm", "h100_sxm", "vllm")
    assert kernels is not None
    values = given()
    for tokens, observed in BALANCED_US[8].items():
        predicted = _experts_us(registry, float(tokens), values | kernels.values)
        assert predicted == pytest.approx(observed, rel=0.16), tokens
    alone = _experts_us(registry, 4096.0, values)
    assert alone < 0.7 * BALANCED_US[8][4096]


def test_kernels_that_exchange_tokens_have_no_rows_of_others(registry: Registry) -> None:
    shares = {
        engine: kernels.values["kernels.experts.passed_share"]
        for engine in ("vllm", "trtllm")
        if (kernels := expert_formats.in_16_bits("h100_sxm", "h100_sxm", engine)) is not None
    }
    assert shares["vllm"] > 1
    assert shares["trtllm"] < 0.2


def test_padded_kernels_multiply_the_rows_of_all_ranks(registry: Registry) -> None:
    """DeepGEMM in vLLM 0.11.1 has a row for every choice of a token and 127 more for every expert of the rank."""
    padded = given(expert_bits=8, compute_bits=8, expert_bytes=1, weight_bytes=1) | {
        "kernels.experts.untouched_share": 1.0, "kernels.experts.tile_rows": 128.0,
    }  # fmt: skip
    prefix = "serving.decode.experts_up."
    few, many = (
        ask(
            registry,
            prefix + "compute_time",
            padded | {"serving.concurrency": count, "serving.batch": count},
        )
        for count in (8.0, 512.0)
    )
    rows = [8 * count + 128 * 16 for count in (8, 512)]
    assert many / few == pytest.approx(rows[1] / rows[0], rel=0.01)
