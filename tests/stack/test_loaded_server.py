"""A loaded server: contexts of answers that vary, copies of said tokens, and prompts between tokens."""

from __future__ import annotations

import numpy as np
import pytest

from assay.catalog import engines, models
from assay.model import Registry
from assay.stack import registry as whole_stack
from assay.validate.figure_records import DATA_SETS, share_of_output
from assay.validate.serving.predict import hardware

CHOICES: dict[str, float] = {
    "tensor": 1, "pipeline": 1, "expert": 1, "attention_replicas": 1, "compute_bits": 16, "expert_bits": 16,
    "weight_bytes": 2, "expert_bytes": 2, "kv_bytes": 2, "prompt": 1024, "output": 256, "concurrency": 64, "static": 0,
    "separate": 0, "group_limit": 1000,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def given(system: str, model: str, **changes: float) -> dict[str, float]:
    own = {f"serving.{name}": float(value) for name, value in (CHOICES | changes).items()}
    return {
        **hardware(system),
        **engines.given("vllm", "inferencex"),
        **models.find(model).given,
        **own,
    }


def ask(registry: Registry, name: str, values: dict[str, float]) -> float:
    return registry.resolve(f"serving.{name}", given=dict(values)).require_value()


def test_contexts_of_exponential_answers_are_those_of_a_renewal_process(registry: Registry) -> None:
    """The inspection paradox: requests that run have put out more than half of the mean answer."""
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    lengths = np.random.default_rng(1).exponential(size=400_000)
    share = float((lengths**2).sum() / 2 / lengths.sum())
    context = ask(registry, "context", values | {"serving.output_share": share})
    expected = values["serving.prompt"] + values["serving.output"]
    assert context == pytest.approx(expected, rel=0.01)
    assert (
        ask(registry, "context", values) == values["serving.prompt"] + values["serving.output"] / 2
    )


@pytest.mark.parametrize("running", [32, 128])
def test_share_of_output_is_that_of_a_simulated_run(running: int) -> None:
    """A run of 198 requests, `running` at a time: outputs so far between its first and last full batch."""
    data = DATA_SETS["gpqa"]
    random = np.random.default_rng(0)
    shares = []
    for _ in range(40):
        lengths = random.exponential(1000.0, size=data.requests)
        starts, left = list(lengths[:running]), list(lengths[running:])
        ends = sorted((float(length), 0.0) for length in starts)
        done: list[tuple[float, float]] = []
        while len(done) < data.requests - running - 1 and ends:
            end, start = ends.pop(0)
            done.append((end, start))
            if left:
                ends.append((end + float(left.pop(0)), end))
                ends.sort()
        last = done[-1][0]
        spans = [(start, min(end, last)) for end, start in (*done, *ends)]
        shares.append(
            sum((end - start) ** 2 / 2 for start, end in spans) / (running * last * 1000.0)
        )
    assert share_of_output(running, data) == pytest.approx(float(np.mean(shares)), rel=0.12)


def test_copies_of_said_tokens_lengthen_a_step_where_kernels_are_shorter(
    registry: Registry,
) -> None:
    values = given("h200_sxm", "llama-3.1-8b", concurrency=64)
    plain = ask(registry, "decode.time", values)
    kernels = plain - ask(registry, "decode.host_time", values)
    tokens = ask(registry, "decoding", values) * values["serving.output"] / 2
    short, long = 0.5 * kernels / tokens, 3 * kernels / tokens
    assert ask(registry, "decode.time", values | {"serving.history_time": short}) == pytest.approx(
        plain
    )
    longer = ask(registry, "decode.time", values | {"serving.history_time": long})
    assert longer - plain == pytest.approx(2 * kernels, rel=1e-6)


@pytest.mark.parametrize("concurrency", [8, 64, 192])
def test_intervals_between_tokens_are_quantiles_of_prompts_that_arrive_at_random(
    registry: Registry, concurrency: int
) -> None:
    """Iterations with a Poisson number of prompts of exponential lengths, drawn."""
    values = given("h200_sxm", "llama-3.1-8b", concurrency=concurrency) | {
        "serving.prompt": 300.0, "serving.output": 200.0, "serving.prompt_variation": 1.0,
    }  # fmt: skip
    decode, median, tail, rate = (
        ask(registry, name, values)
        for name in ("decode.time", "median_interval", "tail_interval", "prompt_rate")
    )
    others = 1 - 1 / ask(registry, "batch", values)
    chunk = ask(registry, "chunk", values)
    per_prompt = (ask(registry, "mixed.time", values) - decode) / max(chunk / 300.0, 1)
    random = np.random.default_rng(2)
    counts = random.poisson(rate * others / 300.0, size=200_000)
    sums = np.where(counts > 0, random.gamma(np.maximum(counts, 1)), 0.0)
    drawn = decode + per_prompt * np.quantile(sums, [0.5, 0.99])
    assert median == pytest.approx(drawn[0], rel=0.05)
    assert tail == pytest.approx(drawn[1], rel=0.05)


def test_padded_experts_take_as_long_with_few_requests_as_with_many(registry: Registry) -> None:
    """Qwen3-235B in 8 bits on vLLM 0.12, two H200: 55.8 ms a token with 4 requests, 51.6 with 20."""
    base = given("h200_sxm", "qwen3-235b-a22b", concurrency=4) | {
        "serving.tensor": 2.0, "serving.compute_bits": 8.0, "serving.expert_bits": 8.0,
        "serving.weight_bytes": 1.0, "serving.expert_bytes": 1.0,
    }  # fmt: skip
    padded = base | {"kernels.experts.untouched_share": 1.0, "kernels.experts.tile_rows": 128.0}

    def growth(values: dict[str, float]) -> float:
        few, many = (
            ask(registry, "decode.feed_forward_time", values | {"serving.concurrency": count})
            for count in (4.0, 20.0)
        )
        return many / few

    assert growth(base) > 1.5
    assert growth(padded) < 1.1
