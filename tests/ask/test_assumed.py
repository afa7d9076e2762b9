"""What `assay ask` assumes is sensible, and said: equal counts, loads, lengths, layouts and units."""

from __future__ import annotations

import pytest

from assay.asking.answering import ask
from assay.asking.outcome import Outcome


def answered(question: str) -> Outcome:
    """The answer to a question that must have one."""
    answer = ask(question)
    assert answer.outcome is not None, answer.problem
    return answer.outcome


@pytest.mark.parametrize(
    ("question", "low", "high"),
    [
        # Peaks in BF16: 989, 312 and 2,250 TFLOP/s.
        ("is H100 faster than A100 for pretraining llama 3.1 8b?", 2.3, 3.2),
        ("How long to train Llama 3.1 8B on 1T tokens: H100 or B200?", 1.6, 2.4),
    ],
)
def test_training_is_compared_on_as_many_gpus(question: str, low: float, high: float) -> None:
    outcome = answered(question)
    assert outcome.ratio is not None
    assert low < outcome.ratio < high
    assert "64 GPUs for each" in outcome.assumed
