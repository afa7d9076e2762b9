"""What a run has to reach, and that a stopped one goes on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import draws
import pytest
import run_properties
from tally import LEAST_DRAWS, MOST_REFUSED, WHOLE_RUN, Tally, all_entries, problems

from assay.catalog import accelerators, models


def whole_run() -> Tally:
    """A run in which every entry was drawn and answered as often as it has to be."""
    counts = Counter(dict.fromkeys(all_entries(), LEAST_DRAWS))
    return Tally(kinds=Counter(serving=WHOLE_RUN), entries=counts, answered=counts.copy())


def test_a_run_fails_by_a_violation_by_refusals_and_by_an_entry_that_was_drawn_too_rarely() -> None:
    assert problems(whole_run()) == []
    violated, refused, rare, unanswered = (whole_run() for _ in range(4))
    violated.violations["Little's law"] = "a command"
    refused.refused["serving"] = int(MOST_REFUSED * WHOLE_RUN) + 1
    rare.entries["models/gpt2"] -= 1
    unanswered.answered["accelerators/h20_sxm"] -= 1
    assert [len(problems(run)) for run in (violated, refused, rare, unanswered)] == [1, 1, 1, 1]


def test_every_entry_comes_in_turn() -> None:
    count = 3 * len(accelerators.names()) * len(models.names())
    kinds = Counter(draws.turn_of(index)[0] for index in range(WHOLE_RUN))
    assert min(kinds.values()) > 250
    turns = [turn for kind, turn in map(draws.turn_of, range(count)) if kind == "step"]
    assert turns == list(range(len(turns)))
    seen = [draws.of_kind("step", "turns", turn).entries for turn in range(2 * len(models.names()))]
    by_model = Counter(entries["models"] for entries in seen)
    assert set(by_model.values()) == {2}
    assert len(by_model) == len(models.names())


def test_parts_that_are_done_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counted(seed: str, indices: range, names: tuple[str, ...]) -> Tally:
        asked.append(indices.start)
        return Tally(kinds=Counter(serving=len(indices)))

    monkeypatch.setattr(run_properties, "check", counted)
    monkeypatch.setattr(run_properties, "KEPT", tmp_path)
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    for count in ("200", "400", "400"):
        words = ["run_properties.py", "--count", count, "--workers", "1"]
        monkeypatch.setattr("sys.argv", words)
        run_properties.main()
    assert asked == [0, 100, 200, 300]
    (summary,) = tmp_path.glob("*.summary.json")
    assert json.loads(summary.read_text("utf-8"))["draws"] == 400
