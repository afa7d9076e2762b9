"""Failed trials forbid what would fail again, and nothing else."""

import pytest

from assay.improve.policy.constraints import Constraints, Failure
from assay.load.workloads.measurement import Setting

RISKIER = {
    "max_batch": ("larger", (16, 64, 128)),
    "free_share": ("smaller", (0.1, 0.2)),
    "kv_format": ("earlier", ("bf16", "fp8")),
}
START: dict[str, Setting] = {
    "max_batch": 16, "free_share": 0.2, "kv_format": "bf16", "overlap": "off",
}  # fmt: skip


@pytest.mark.parametrize(
    ("failed", "kind", "asked", "forbidden"),
    [
        ({"max_batch": 64}, "OOM", {"max_batch": 64}, True),
        ({"max_batch": 64}, "OOM", {"max_batch": 128}, True),
        ({"max_batch": 64}, "OOM", {"max_batch": 32}, False),
        ({"max_batch": 64}, "OOM", {"max_batch": 128, "overlap": "on"}, True),
        ({"max_batch": 64}, "OOM", {"max_batch": 128, "kv_format": "fp8"}, False),
        ({"free_share": 0.1}, "OOM", {"free_share": 0.05}, True),
        ({"kv_format": "fp8"}, "OOM", {"kv_format": "bf16"}, True),
        ({"max_batch": 64}, "crash", {"max_batch": 64}, True),
        ({"max_batch": 64}, "crash", {"max_batch": 128}, False),
        ({"overlap": "on"}, "hang", {"overlap": "on", "max_batch": 128}, True),
        ({"overlap": "on"}, "hang", {"max_batch": 128}, False),
    ],
)
def test_what_a_failure_forbids(
    failed: dict[str, Setting], kind: str, asked: dict[str, Setting], forbidden: bool
) -> None:
    limits = Constraints(RISKIER)  # type: ignore[arg-type]
    limits.add(Failure(failed, START | failed, kind))
    assert (limits.forbids(START | asked) is not None) == forbidden


def test_the_reason_names_failure_and_source() -> None:
    limits = Constraints(RISKIER)  # type: ignore[arg-type]
    limits.add(Failure({"max_batch": 64}, {**START, "max_batch": 64}, "OOM", "run 7"))
    assert limits.forbids({**START, "max_batch": 128}) == "OOM at max_batch=64 (run 7)"


def test_a_failure_without_changes_forbids_nothing() -> None:
    limits = Constraints()
    limits.add(Failure({}, START, "crash"))
    assert limits.forbids(START) is None
