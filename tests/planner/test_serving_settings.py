"""Settings of a server by prediction."""

import pytest

from assay.errors import InputError
from assay.planner import hardware_spec, model_spec
from assay.planner.serving_settings import StepLimits, serving_settings

MODEL, HARDWARE = model_spec("llama-3.1-8b"), hardware_spec("h200")


def test_a_large_gpu_gets_a_large_batch_and_budget():
    chosen = serving_settings(MODEL, HARDWARE)
    assert (chosen.max_batch, chosen.token_budget) == (512, 2048)
    # Measured on one such GPU: 622 TFLOP/s at prompts of 2,048 tokens, 16 GFLOP a token.
    assert chosen.prefill_rate == pytest.approx(622e12 / 16.06e9, rel=0.3)
    assert "max_batch 512, token_budget 2,048: h200_sxm is predicted" in chosen.sentence()


def test_a_shorter_limit_of_a_token_means_a_smaller_batch():
    batches = [
        serving_settings(MODEL, HARDWARE, StepLimits(tpot_s=limit)).max_batch
        for limit in (0.010, 0.025, 0.050)
    ]
    assert batches == [64, 256, 512]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (StepLimits(tpot_s=0.002), "--slo tpot: expected at least 5.2 ms"),
        (StepLimits(ttft_s=0.005), "--slo ttft: expected at least 21.7 ms"),
    ],
)
def test_limits_below_one_request_alone_are_refused(limits, message):
    with pytest.raises(InputError, match=message):
        serving_settings(MODEL, HARDWARE, limits)
