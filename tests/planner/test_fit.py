"""One fit verdict: predictions refuse what the graph's constraints say no server could run."""

from __future__ import annotations

from typing import Any

import pytest

from assay.errors import InfeasibleError, InputError
from assay.planner import BatchConfig, hardware_spec, model_spec
from assay.planner.fit import LAYOUT, MEMORY, judge
from assay.planner.questions import predict_load, predict_step, sweep_steps
from assay.scenario.question import read_question

SERVING = "llama3_8b_h200_serving"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tensor": 3}, "tensor: expected a divisor of the 32 heads"),
        ({"tensor": 64}, "tensor: expected a divisor of the 32 heads"),
        ({"pipeline": 40}, "pipeline: expected at most the 32 layers"),
        (
            {"context": 500_000},
            "context of 500,000 tokens is beyond the model's context of 131,072",
        ),
        ({"expert": 2, "tensor": 2}, "the model is dense"),
    ],
)
def test_impossible_layouts_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        predict_step("llama-3.1-8b", "h100_sxm", **settings)


def test_context_of_a_small_model_is_a_limit() -> None:
    with pytest.raises(InputError, match="beyond the model's context of 1,024"):
        predict_step("gpt2", "h100_sxm", context=500_000)
    predict_step("gpt2", "h100_sxm", context=1024)


def test_model_that_does_not_fit_has_no_goodput() -> None:
    with pytest.raises(InfeasibleError, match=r"671|672") as refused:
        predict_load("deepseek-v3", "h100_sxm", [1.0])
    assert refused.value.hint == "it fits with tensor=16"


def test_configurations_that_do_not_fit_are_left_out() -> None:
    swept = sweep_steps("llama-3.1-405b", ["h100_sxm"], {"tensor": [1, 2, 3, 4, 8, 16]})
    # 405.9 billion weights of 2 byte: 50.7 GB on each of 16 GPUs, 101.5 on each of 8.
    assert list(swept.steps.settings["tensor"]) == [16]
    assert swept.steps.left_out == {"serving.heads_divide": 1, "serving.fits_memory": 4}
    with pytest.raises(InfeasibleError, match="none of 2 configurations fits"):
        sweep_steps("llama-3.1-405b", ["h100_sxm"], {"tensor": [1, 2]})


def test_sliding_windows_bound_the_kv_cache() -> None:
    """Of 62 layers of Gemma 3 27B ten keep all 120,000 tokens, 52 keep 1,024: 10.3 GB, not 61."""
    fit = judge(
        model_spec("gemma-3-27b"), hardware_spec("h100_sxm"), BatchConfig(1, context=120_000)
    )
    assert fit.broken == ()
    whole, windowed = 10 * 120_000, 52 * 1024
    assert fit.request == pytest.approx((whole + windowed) * 2 * 16 * 128 * 2, rel=0.01)
    predict_step("gemma-3-27b", "h100_sxm", context=120_000)


@pytest.mark.parametrize(
    ("model", "gpu", "tensor", "requests", "context"),
    [
        ("gemma-3-27b", "h100_sxm", 1, 1, 120_000),
        ("deepseek-v3", "h200_sxm", 8, 256, 16_384),
        ("deepseek-v3", "h100_sxm", 1, 1, 1024),
        ("gpt-oss-120b", "h100_sxm", 1, 64, 4096),
        ("llama-3.1-70b", "h100_sxm", 2, 8, 8192),
        ("llama-3.1-8b", "h200_sxm", 3, 1, 1024),
    ],
)
def test_predict_and_resolve_judge_alike(
    model: str, gpu: str, tensor: int, requests: int, context: int
) -> None:
    spec = model_spec(model)
    batch = BatchConfig(
        requests, context=context, tensor=tensor, weight_dtype=spec.weight_dtype or "bf16"
    )
    fit = judge(spec, hardware_spec(gpu), batch)
    question = read_question(
        preset=SERVING,
        includes=[f"models/{model}", f"accelerators/{gpu}"],
        assign={
            "serving.tensor": str(tensor), "serving.concurrency": f"{requests} request",
            "serving.prompt": f"{context - 1} token", "serving.output": "1 token",
        },
    )  # fmt: skip
    found = question.resolve("serving.requests_that_fit", intervals=False)
    violated = {v.name for v in found.violated if v.name in (*LAYOUT, *MEMORY)}
    assert set(fit.broken) == violated
    assert fit.requests == pytest.approx(found.require_value(), rel=0.03)
