"""Approximations that no value depends on are not blamed."""

from __future__ import annotations

import pytest

from assay.scenario.question import read_question
from assay.scenario.questions.remarks import remarks


@pytest.mark.parametrize(
    ("includes", "assign", "blameless"),
    [
        # Fused attention runs, so that scores never exist as a GEMM.
        (("models/kimi-k2", "accelerators/b200_sxm"), {}, "score_product"),
        # One replica has nobody to broadcast to.
        ((), {"training.gpus": "1 GPU"}, "data.owner_time"),
    ],
)
def test_what_is_not_computed_is_not_blamed(
    includes: tuple[str, ...], assign: dict[str, str], blameless: str
) -> None:
    question = read_question(preset="llama3_8b_8_h100_training", includes=includes, assign=assign)
    found = question.resolve("training.step_time", intervals=False)
    assert not [line for line in remarks(found) if blameless in line]
    assert not [verdict for verdict in found.validity if blameless in verdict.name]


def test_what_is_computed_outside_its_table_is_still_blamed() -> None:
    unfused = read_question(
        preset="llama3_8b_8_h100_training",
        includes=("models/kimi-k2", "accelerators/b200_sxm"),
        assign={"software.attention": "0"},
    )
    found = unfused.resolve("training.step_time", intervals=False)
    assert [line for line in remarks(found) if "score_product" in line]
