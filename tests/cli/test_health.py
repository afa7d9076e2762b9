"""`assay verify`, `audit`, `root-debt` and `next-work`."""

from pathlib import Path
from typing import Any

import pytest

from assay import stack
from assay.model import Registry, Scope, by_definition

PRESET = ("--preset", "dense_training_cost_fixture")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A model with a root that has no boundary."""
    scope = Scope("f", "a faulty model")
    root = scope.variable("root", "r", "s", "without a boundary", reference=by_definition())
    scope.variable("top", "t", "s", "twice it", equals=2 * root, target=True)
    registry = Registry.from_scopes([scope])
    monkeypatch.setattr(stack, "registry", lambda: registry)
    return registry


@pytest.mark.parametrize("profile", ["fast", pytest.param("full", marks=pytest.mark.slow)])
def test_the_stack_verifies(cli: Any, profile: str) -> None:
    outcome = cli("verify", "--profile", profile, "--json")
    assert outcome.code == 0, outcome.out
    assert outcome.data["ok"] is True
    assert outcome.data["profile"] == profile
    assert {check["status"] for check in outcome.data["checks"]} <= {"ok", "skipped"}


def test_failed_check_is_named_and_exits_with_1(cli: Any, faulty: Registry) -> None:
    outcome = cli("verify")
    assert outcome.code == 1
    assert "failed        1  boundaries" in outcome.out
    assert "boundaries: root f.root declares no boundary" in outcome.out
    assert outcome.err == "error: rules broken: boundaries\n"


@pytest.mark.slow
def test_verifying_read_only_writes_nothing(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    assert cli("verify", "--profile", "full", "--read-only").code == 0
    assert not (tmp_path / "scratch").exists()


def test_audit_lists_weak_references(cli: Any, toy: Registry) -> None:
    data = cli("audit", "--json").data
    assert data["coverage"]["relations"]["unsourced"] > 0
    assert {"name": "toy.load.fits", "of": "relation", "why": "unsourced"} in data[
        "weak_references"
    ]
    text = cli("audit").out
    assert "    relation toy.load.fits: unsourced\n" in text
    assert f"weak references: {len(data['weak_references'])}\n" in text


def test_long_lists_are_cut_in_text_only(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope("f", "many faults")
    for index in range(30):
        scope.variable(f"root{index}", "r", "s", f"without a boundary, number {index}")
    registry = Registry.from_scopes([scope])
    monkeypatch.setattr(stack, "registry", lambda: registry)
    text = cli("verify").out
    assert text.count("boundaries: root f.root") == 20
    assert "boundaries: 10 more; --json lists all\n" in text
    (check,) = [c for c in cli("verify", "--json").data["checks"] if c["name"] == "boundaries"]
    assert len(check["details"]) == 30
    assert "    10 more; --json lists all\n" in cli("audit").out


def test_root_debt_of_every_root(cli: Any) -> None:
    assert len(cli("root-debt", "--limit", "0").out.splitlines()) > 300


def test_root_debt_by_dependents(cli: Any) -> None:
    data = cli("root-debt", "--limit", "3", "--json").data
    assert (data["by"], data["target"], data["families"]) == ("dependents", None, False)
    counts = [row["dependents"] for row in data["rows"]]
    assert len(counts) == 3
    assert counts == sorted(counts, reverse=True)
    graph = stack.registry().graph
    for row in data["rows"]:
        assert row["dependents"] == len(graph.downstream_relations(row["name"]))
    more = cli("root-debt", "--include-constraints", "--json").data["rows"]
    fewer = {row["name"]: row["dependents"] for row in cli("root-debt", "--json").data["rows"]}
    assert all(row["dependents"] >= fewer[row["name"]] for row in more)
    assert sum(row["dependents"] for row in more) > sum(fewer.values())


def test_root_debt_by_family(cli: Any) -> None:
    rows = cli("root-debt", "--families", "--json").data["rows"]
    (gpu,) = [row for row in rows if row["name"] == "gpu"]
    assert "gpu.clock" in gpu["members"]
    assert "gpu.clock" in cli("root-debt", "--families").out


def test_root_debt_by_variance(cli: Any) -> None:
    """Of two independent terms of a sum, shares are as their variances."""
    sure = ("--target", "thermal.dc.overhead_power", "--by", "variance")
    given = (
        "--set", "thermal.cooling.power=normal(600, 30) W",
        "--set", "thermal.dc.ups_loss=normal(400, 40) W",
        "--set", "thermal.dc.transformer_loss=100 W",
    )  # fmt: skip
    rows = cli("root-debt", *sure, *given, "--json").data["rows"]
    shares = {row["name"]: row["variance_share"] for row in rows}
    assert shares["thermal.dc.ups_loss"] == pytest.approx(0.64, abs=0.02)
    assert shares["thermal.cooling.power"] == pytest.approx(0.36, abs=0.02)
    assert shares["thermal.transformer.idle_share"] is None
    text = cli("root-debt", *sure, *given).out
    assert text.splitlines()[1].split()[1] == "thermal.dc.ups_loss"


def test_root_debt_by_variance_needs_a_target(cli: Any) -> None:
    outcome = cli("root-debt", "--by", "variance")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ranking by variance needs a target\nhint: ")


def test_next_work_by_layer_counts_every_item(cli: Any) -> None:
    data = cli("next-work", *PRESET, "--json").data
    assert sum(group["items"] for group in data["layers"]) == data["of"]
    weights = {item["name"]: item["weight"] for item in data["items"]}
    assert all(weights[group["heaviest"]] == group["weight"] for group in data["layers"])
    first = cli("next-work", *PRESET, "--by-layer").out.splitlines()
    assert first[0].split() == ["layer", "work", "items", "weight", "heaviest"]
    assert first[1].split()[0] == data["items"][0]["name"].partition(".")[0]


def test_root_debt_by_layer_counts_every_root(cli: Any) -> None:
    data = cli("root-debt", *PRESET, "--json").data
    assert sum(sum(layer["kinds"].values()) for layer in data["layers"]) >= len(data["rows"])
    owed = [layer["owed"] for layer in data["layers"]]
    assert owed == sorted(owed, reverse=True)
    assert owed[0] == max(
        row["dependents"] for row in data["rows"] if {"missing", "assumed"} & set(row["given"])
    )
    assert "on missing or assumed" in cli("root-debt", *PRESET, "--by-layer").out


def test_next_work_ranks_by_weight(cli: Any) -> None:
    data = cli("next-work", *PRESET, "--limit", "4", "--json").data
    weights = [item["weight"] for item in data["items"]]
    assert weights == sorted(weights, reverse=True)
    assert len(weights) == 4 < data["of"]
    text = cli("next-work", "--limit", "4").out
    assert text.splitlines()[-1] == f"4 of {data['of']} items; --limit 0 lists all"
    assert all(item["name"] in text for item in data["items"])
