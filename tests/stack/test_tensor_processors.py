"""Accelerators whose kernels are not modeled train at the share of their peak that published runs reach."""

from __future__ import annotations

import math
from statistics import median

import pytest

from assay.scenario.question import read_question

# Google tpu-recipes at c8cfe2f, a log line each: tokens by second and chip with MaxText, and its TFLOP/s by chip.
PUBLISHED = {
    ("tpu_v6e", "llama-3.1-8b"): [7119.648, 7243.378, 7207.336, 7031.689, 7247.111, 7138.89],
    ("tpu_v6e", "llama-3.1-70b"): [941.976, 960.248, 920.965, 876.736],
    ("tpu_v6e", "llama-3.1-405b"): [149.482],
    ("tpu_v6e", "mistral-7b"): [7776.813],
    ("tpu_v5p", "llama-3.1-405b"): [124.618],
}
BY_SHARE = {"training.step_time": "training.by_achieved_share"}
COUNTED = [384.891, 328.139, 402.274, 392.454, 447.7, 415.4, 431.981]
"""TFLOP/s of the seven dense models on a v6e, the median of each."""


@pytest.mark.parametrize(("accelerator", "model"), PUBLISHED)
def test_tokens_of_published_runs(accelerator: str, model: str) -> None:
    question = read_question(
        "llama3_8b_8_h100_training",
        None,
        BY_SHARE,
        (f"accelerators/{accelerator}", f"models/{model}"),
    )
    rate = question.resolve("training.tokens_per_second", intervals=False).require_value() / 8
    assert rate == pytest.approx(median(PUBLISHED[accelerator, model]), rel=0.25)


def test_the_share_is_that_of_dense_models() -> None:
    question = read_question("llama3_8b_8_h100_training", None, BY_SHARE, ("accelerators/tpu_v6e",))
    mean = math.exp(sum(map(math.log, COUNTED)) / len(COUNTED)) / 918
    assert question.inputs.values["training.achieved_share"] == pytest.approx(mean, rel=5e-3)
    rate = question.resolve("training.tokens_per_second")
    assert rate.lower is not None
    assert rate.upper is not None
    assert rate.upper / rate.lower > 1.2
    (note,) = [text for text in question.notes if "not modeled" in text]
    assert "by_achieved_share gives a training step at 0.433 of the peak rate (Google" in note
