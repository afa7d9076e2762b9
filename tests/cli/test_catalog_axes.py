"""Axes of catalog entries in sweep, minimize and pareto."""

from __future__ import annotations

from typing import Any

import pytest

from assay.scenario.questions.sweeping import pareto_front

TRAINING = ("--preset", "llama3_8b_8_h100_training")
SERVING = ("--preset", "llama3_8b_h200_serving")
COST = "econ.cost.per_token"


def test_sweep_over_accelerators_equals_resolve_with_each(cli: Any) -> None:
    names = ("h100_sxm", "h200_sxm")
    found = cli("sweep", COST, *TRAINING, "--over", f"accelerators={','.join(names)}", "--json")
    assert found.code == 0
    assert found.data["axes"] == ["accelerators"]
    for row, name in zip(found.data["rows"], names, strict=True):
        alone = cli("resolve", COST, *TRAINING, "--with", f"accelerators/{name}", "--json")
        assert row["accelerators"] == name
        assert row[COST] == pytest.approx(alone.data["value"], rel=1e-9)


def test_sweep_over_entries_and_values_has_a_row_for_each_pair(cli: Any) -> None:
    found = cli(
        "sweep", COST, *TRAINING, "--over", "accelerators=h100_sxm,h200_sxm",
        "--over", "training.batch=64,128", "--json",
    )  # fmt: skip
    pairs = [(row["accelerators"], row["training.batch"]) for row in found.data["rows"]]
    assert pairs == [(a, b) for a in ("h100_sxm", "h200_sxm") for b in (64, 128)]


def test_entry_without_a_price_names_what_is_missing(cli: Any) -> None:
    found = cli("sweep", COST, *TRAINING, "--over", "accelerators=h100_sxm,v100_sxm2", "--json")
    assert found.code == 0
    missing = found.data["rows"][1]["missing"]
    assert "econ.gpu.price" in missing
    assert found.data["rows"][1][COST] is None


def test_minimize_over_accelerators_takes_the_cheapest(cli: Any) -> None:
    names = "h100_sxm,h200_sxm,b200_sxm"
    swept = cli("sweep", COST, *TRAINING, "--over", f"accelerators={names}", "--json")
    found = cli("minimize", COST, *TRAINING, "--over", f"accelerators={names}", "--json")
    cheapest = min(swept.data["rows"], key=lambda row: row[COST])
    assert found.data["entries"] == {"accelerators": cheapest["accelerators"]}
    assert found.data["value"] == pytest.approx(cheapest[COST], rel=1e-9)
    assert [one["entries"]["accelerators"] for one in found.data["by_entry"]] == names.split(",")


def test_front_holds_no_dominated_point(cli: Any) -> None:
    cost, latency = "econ.cost.per_output_token", "serving.time_per_output_token"
    over = (
        "--over",
        "accelerators=h100_sxm,h200_sxm",
        "--over",
        "serving.concurrency=1,8,64 request",
    )
    swept = cli("sweep", cost, latency, *SERVING, *over, "--json")
    found = cli("pareto", cost, latency, *SERVING, *over, "--json")
    front = [(row[cost], row[latency]) for row in found.data["rows"]]
    assert front == sorted(front)
    points = [(r[cost], r[latency]) for r in swept.data["rows"] if r["constraints"] != "false"]
    expected = [
        p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    ]
    assert front == sorted(expected)


def test_front_of_a_maximized_target() -> None:
    def row(a: float, b: float, feasible: bool = True) -> dict[str, Any]:
        return {"a": a, "b": b, "constraints": "true" if feasible else "false"}

    rows = [row(1, 1), row(2, 3), row(3, 2), row(4, 9, feasible=False), row(5, 4)]
    found = pareto_front(rows, ("a", "b"), (1.0, -1.0))
    assert [(r["a"], r["b"]) for r in found] == [(1, 1), (2, 3), (5, 4)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pareto", COST, COST, "--over", "accelerators=h100_sxm"), "the two targets are the same"),
        (("pareto", COST, "training.step_time"), "--over is missing"),
        (
            ("pareto", COST, "training.step_time", "--maximize", "gpu.power", "--over", "gpu.clock=1 GHz"),
            "--maximize: expected one of the two targets",
        ),
        (("sweep", COST, "--over", "accelerators=h100_sxm,"), "malformed --over"),
        (("sweep", COST, "--over", "accelerators=h100_sxn"), "did you mean h100_sxm"),
    ],
)  # fmt: skip
def test_bad_axes_are_refused(cli: Any, words: tuple[str, ...], expected: str) -> None:
    found = cli(*words, *TRAINING)
    assert found.code == 2
    assert expected in found.err


def test_checks_apply_to_catalog_axes_too(cli: Any) -> None:
    over = ("--over", "accelerators=h100_sxm", "--with", "models/llama-3.1-70b")
    fail = "--fail-on-violated-constraints"
    assert cli("sweep", COST, *TRAINING, *over, fail).code == 1
    assert cli("minimize", COST, *TRAINING, *over, fail, "--ignore-constraints").code == 1
    pinned = ("--set", "cluster.gpus=9 GPU")
    replaced = cli("sweep", COST, *TRAINING, "--over", "accelerators=h100_sxm", *pinned)
    assert replaced.code == 0
    assert (
        "cluster.gpus is given as 9 GPU, but cluster.nodes * cluster.node.gpus gives 1024 GPU"
        in replaced.err
    )
    nodes = ("--set", "cluster.nodes=2 node", "--set", "cluster.node.gpus=8 GPU/node")
    refused = cli("sweep", COST, *TRAINING, "--over", "accelerators=h100_sxm", *pinned, *nodes)
    assert refused.code == 2
