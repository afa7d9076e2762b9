"""A relation and the value that only it reads are one cause of a difference, not two."""

from __future__ import annotations

import math

from assay.scenario.questions.comparing import DiffAnswer, diff

TRAINING = "llama3_8b_8_h100_training"
FLOOR = ("packs/h100_floor",)


def test_a_shrink_is_counted_once() -> None:
    answer = diff(
        TRAINING, TRAINING, "training.step_time", by="input",
        with_before=FLOOR, with_after=(*FLOOR, "processes/n2"),
    )  # fmt: skip
    assert isinstance(answer, DiffAnswer)
    difference = answer.difference
    total = difference.after - difference.before
    assert math.isclose(sum(c.amount for c in difference.contributions), total, rel_tol=1e-9)
    by_change = {
        change.name: item.label for item in difference.contributions for change in item.changes
    }
    assert by_change["transistor.node.energy"] == by_change["gpu.cycle_energy"]
