"""Options of resolve, audit and scenario-report that narrow or extend an answer."""

from __future__ import annotations

from typing import Any

import pytest

TRAINING = "llama3_8b_8_h100_training"
COST = "econ.cost.per_token"


def test_resolve_lists_missing_families(cli: Any) -> None:
    found = cli("resolve", COST, "--missing-families")
    assert found.code == 3
    assert "missing family" in found.out
    assert "parallelism" in found.out


def test_resolve_diagnostics_list_what_was_not_judged(cli: Any) -> None:
    found = cli("resolve", "training.step_time", "--preset", TRAINING, "--diagnostics")
    assert found.code == 0
    for title in ("switches:", "conflicts:", "degradations:", "not judged:"):
        assert title in found.out


def test_audit_of_one_target_counts_its_cone_only(cli: Any) -> None:
    every = cli("audit", "--json").data["coverage"]["relations"]
    one = cli("audit", "--target", "thermal.dc.pue", "--json").data["coverage"]["relations"]
    assert 0 < sum(one.values()) < sum(every.values())


def test_audit_of_an_unknown_target_is_refused(cli: Any) -> None:
    found = cli("audit", "--target", "thermal.dc.pu")
    assert found.code == 2
    assert "thermal.dc.pue" in found.err


def test_audit_fails_on_issues_when_told(cli: Any) -> None:
    data = cli("audit", "--json").data
    found = cli("audit", "--fail-on-issues")
    has_issues = bool(data["weak_references"] or data["unreached_relations"])
    assert found.code == (1 if has_issues else 0)


def test_scenario_report_of_other_targets_and_values(cli: Any) -> None:
    found = cli(
        "scenario-report", TRAINING, "--target", "training.mfu", "--target", COST,
        "--set", "training.gpus=16 GPU", "--with", "accelerators/h200_sxm", "--json",
    )  # fmt: skip
    (report,) = found.data["reports"]
    assert [row["target"] for row in report["targets"]] == ["training.mfu", COST]
    alone = cli(
        "resolve", COST, "--preset", TRAINING, "--with", "accelerators/h200_sxm",
        "--set", "training.gpus=16 GPU", "--json",
    )  # fmt: skip
    assert report["targets"][1]["value"] == pytest.approx(alone.data["value"], rel=1e-9)


@pytest.mark.parametrize(
    "words",
    [
        ("scenario-report", TRAINING, "--target", "nothing.at.all"),
        ("scenario-report", TRAINING, "--set", "training.gpus=16 W"),
        ("scenario-report", TRAINING, "--variant", "training.step_time=nothing"),
    ],
)
def test_bad_changes_are_refused(cli: Any, words: tuple[str, ...]) -> None:
    assert cli(*words).code == 2
