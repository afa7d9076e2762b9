"""The loop on a scripted server with planted levers: nothing wrong is kept, what is good is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from further_levers import FURTHER
from planted_judging import is_kept
from planted_levers import ALL, BAD, GOOD, HARMLESS
from scripted_engine import ScriptedEngine, workload

from assay.improve.experiments.experiment import run_experiment
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.levers.lever import Candidate

pytestmark = pytest.mark.usefixtures("without_fsync")

QUICK = (
    "late-12",
    "long-100",
    "rare-200-1",
    "chance-1",
    "tool-one-token",
    "cut-short",
    "tail-0",
    "later-150",
    "leak-20000",
    "ends-200",
    "says-old-hot",
    "half-the-tokens",
    "harmless-01",
    "good-1.12",
    "finish-rarely",
    "logprobs",
    "ignores-seed",
    "remembers",
    "good-wide-1.25-cold",
)


def test_planting_imports_nothing_of_what_judges() -> None:
    for name in ("planted_levers.py", "further_levers.py", "scripted_model.py"):
        tree = ast.parse(Path(__file__).with_name(name).read_text())
        modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        modules += [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        ]
        assert not [module for module in modules if module.startswith("assay")]


def test_what_is_planted() -> None:
    assert (len(BAD), len(HARMLESS), len(GOOD)) == (60, 30, 10)
    every = (*ALL, *FURTHER)
    assert len({planted.name for planted in every}) == len(every)
    assert len({planted.kind for planted in FURTHER if planted.is_bad}) >= 12


@pytest.mark.parametrize("name", QUICK)
def test_some_levers(name: str, tmp_path: Path) -> None:
    planted = next(planted for planted in (*ALL, *FURTHER) if planted.name == name)
    kept, why = is_kept(planted, tmp_path)
    assert kept == (planted.kind == "good"), why


def test_a_gain_that_lacks_answers_asks_for_more() -> None:
    """The soak between restarts was too short for the bound; the time after the pairs is not."""
    planted = next(planted for planted in GOOD if planted.name == "good-1.6")
    engine = ScriptedEngine(planted)
    settings = ExperimentSettings(
        budget_s=60.0,
        block_s=1.0,
        switch_s=4.0,
        noise_sd=0.015,
        hold_s=1800.0,
        most_changed=1 / 200,
    )
    candidate = Candidate(
        "planted=on", ("planted",), {"planted": "on"}, "rounding", "safe", hot=False
    )
    result = run_experiment(engine, workload(planted), candidate, settings, clock=engine.clock)
    assert result.verdict == "improved", result.reason
    assert result.seconds < 1.2 * settings.budget_s
    assert not engine.is_on


@pytest.mark.slow
def test_all_levers(tmp_path: Path) -> None:
    kept = [planted for planted in ALL if is_kept(planted, tmp_path)[0]]
    assert [planted.name for planted in kept if planted.is_bad] == []
    assert sum(planted.kind == "harmless" for planted in kept) <= 2
    assert sum(planted.kind == "good" for planted in kept) >= 9


@pytest.mark.slow
def test_further_levers(tmp_path: Path) -> None:
    kept = [planted for planted in FURTHER if is_kept(planted, tmp_path)[0]]
    assert kept == [planted for planted in FURTHER if planted.kind == "good"]
