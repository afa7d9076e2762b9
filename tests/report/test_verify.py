"""Verification: an edited byte, a forged figure, a missing row and a changed verdict are caught."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sample_run import make_run

from assay.errors import InputError
from assay.improve.journal.journal import Journal
from assay.improve.journal.run_folder import RunFolder
from assay.improve.loop.record import RunRecord
from assay.report.run import store_report
from assay.report.run_files import REPORTS, RunFiles
from assay.report.storing import from_data
from assay.report.verify import verify

Finished = tuple[Path, RunRecord]


@pytest.fixture
def copy(finished: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished[0], tmp_path / finished[0].name))


def test_an_honest_run_is_verified(finished: Finished) -> None:
    found = verify(finished[0])
    assert found.failures == []
    assert found.is_verified
    names = {one.name for one in found.checks}
    assert {"journal", "final.ratio", "experiments.parquet rows", "report.md text"} <= names


@pytest.mark.parametrize(
    "name",
    [
        "journal.jsonl", "journal.head", "journal.reserve", "experiments.parquet",
        "residuals.parquet", "state.parquet", "plan.json", "degradations.json", "report.json",
        "report.md", "report.html",
    ],
)  # fmt: skip
def test_one_edited_byte_is_caught(copy: Path, name: str) -> None:
    path = copy / name
    content = path.read_bytes()
    places = {0, len(content) // 2, len(content) - 1}
    for place in sorted(places):
        edited = bytearray(content)
        edited[place] ^= 0x01
        path.write_bytes(edited)
        assert not verify(copy).is_verified, f"{name}: byte {place}"
    path.write_bytes(content)
    assert verify(copy).is_verified


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0x01, 0x20, 0x80])
def test_edited_bytes_all_over_the_folder_are_caught(copy: Path, bit: int) -> None:
    tried = 0
    for path in sorted(copy.iterdir()):
        content = path.read_bytes()
        for place in range(bit % 5, len(content), max(len(content) // 60, 1)):
            edited = bytearray(content)
            edited[place] ^= bit
            path.write_bytes(edited)
            assert not verify(copy).is_verified, f"{path.name}: byte {place}"
            tried += 1
        path.write_bytes(content)
    assert tried > 500


@pytest.mark.parametrize("name", ["report.md", "experiments.parquet", "plan.json"])
def test_a_missing_file_is_caught(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert name in {one.name for one in verify(copy).failures}


def _sign_again(folder: Path) -> None:
    """What a forger does who knows how reports are made: new hashes in a new report record."""
    files = RunFiles(folder)
    with Journal.open(folder) as journal:
        journal.append(
            "report",
            files={**files.evidence_files(), **{name: files.digest(name) for name in REPORTS}},
        )


def _forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """Change report.json, write texts and hashes anew, and say what verification finds."""
    data = json.loads((folder / "report.json").read_text())
    change(data)
    with Journal.open(folder) as journal:
        data["provenance"]["journal_head"] = journal.head
    claims, provenance = from_data(data)
    store_report(RunFolder(folder), claims, provenance)
    _sign_again(folder)
    return [one.name for one in verify(folder).failures]


def _claim(data: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in data["claims"] if one["name"] == name)
    return found


def _better_ratio(data: dict[str, Any]) -> None:
    claim = _claim(data, "final.ratio")
    claim["figure"] = {"value": 2.0, "lo": 1.9, "hi": 2.1}
    claim["statement"] = claim["details"]["text"].replace("{figure}", "2.000x (1.900 to 2.100)")


def _better_statement(data: dict[str, Any]) -> None:
    claim = _claim(data, "final.ratio")
    claim["statement"] = claim["statement"].replace("1.7", "1.9", 1)


def _loose_number(data: dict[str, Any]) -> None:
    claim = _claim(data, "final.level")
    claim["details"]["text"] += ", 40 times cheaper"
    claim["statement"] += ", 40 times cheaper"


def _other_rows(data: dict[str, Any]) -> None:
    _claim(data, "start.level")["evidence"][0]["select"]["experiment"] = "e1-threads"


def _promoted(data: dict[str, Any]) -> None:
    claim = _claim(data, "experiment.e4-speculate.ratio")
    claim["verdict"], claim["details"]["role"] = "improved", "kept"


def _reworded(data: dict[str, Any]) -> None:
    _claim(data, "experiment.e3-batch.ratio")["details"]["reason"] = "noise"


def _no_evidence(data: dict[str, Any]) -> None:
    _claim(data, "final.ratio")["evidence"] = []


def _own_rule(data: dict[str, Any]) -> None:
    _claim(data, "final.ratio")["evidence"][0]["rule"] = "because"


def _cheaper(data: dict[str, Any]) -> None:
    claim = _claim(data, "cost.final")
    claim["figure"] = {key: 0.5 * value for key, value in claim["figure"].items()}


def _other_change(data: dict[str, Any]) -> None:
    claim = _claim(data, "experiment.e1-threads.ratio")
    claim["details"]["changes"] = {"threads": 1}
    for text in (claim, claim["details"]):
        for key, value in text.items():
            if isinstance(value, str):
                text[key] = value.replace("threads=2", "threads=1")


def _other_settings(data: dict[str, Any]) -> None:
    data["provenance"]["details"]["settings"]["threads"] = 64


@pytest.mark.parametrize(
    ("forgery", "caught"),
    [
        (_other_settings, "configuration"),
        (_other_change, "experiment.e1-threads.ratio"),
        (_better_ratio, "final.ratio"),
        (_better_statement, "final.ratio"),
        (_loose_number, "final.level"),
        (_other_rows, "start.level"),
        (_promoted, "experiment.e4-speculate.ratio"),
        (_reworded, "experiment.e3-batch.ratio"),
        (_no_evidence, "final.ratio"),
        (_own_rule, "final.ratio"),
        (_cheaper, "cost.final"),
    ],
)
def test_a_forged_claim_with_new_hashes_is_caught(
    copy: Path, forgery: Callable[[dict[str, Any]], None], caught: str
) -> None:
    assert caught in _forge(copy, forgery)


def test_forging_nothing_is_verified(copy: Path) -> None:
    assert _forge(copy, lambda data: None) == []


def test_rows_that_the_journal_does_not_have_are_caught(copy: Path) -> None:
    path = copy / "experiments.parquet"
    rows = pl.read_parquet(path)
    faster = pl.when(pl.col("arm") == "treatment").then(pl.col("value") * 1.1).otherwise("value")
    rows.with_columns(faster.alias("value")).write_parquet(path)
    _sign_again(copy)
    assert "experiments.parquet rows" in {one.name for one in verify(copy).failures}


def test_text_that_the_claims_do_not_give_is_caught(copy: Path) -> None:
    path = copy / "report.md"
    path.write_text(path.read_text().replace("1.7", "1.8"))
    _sign_again(copy)
    assert "report.md text" in {one.name for one in verify(copy).failures}


def test_a_rollback_after_the_report_is_noted_and_verified(copy: Path) -> None:
    with Journal.open(copy) as journal:
        journal.append("reverted", settings={})
    found = verify(copy)
    assert found.is_verified
    assert "the journal goes on after the report: reverted" in found.notes


def test_a_run_without_a_report_is_bad_input(tmp_path: Path) -> None:
    Journal.create(tmp_path / "run").close()
    with pytest.raises(InputError, match="expected a report, got none"):
        verify(tmp_path / "run")


def test_gaps_are_named_where_price_and_power_are_missing(tmp_path: Path) -> None:
    make_run(tmp_path / "run", telemetry=False, price=False)
    assert verify(tmp_path / "run").is_verified
    text = (tmp_path / "run" / "report.md").read_text()
    assert "cost per token is not claimed: no price of the machine was given" in text
    assert "energy per token is not claimed: the run has no telemetry" in text
    assert "USD" not in text


def test_a_report_of_another_build_is_checked_by_hash(copy: Path) -> None:
    def older(data: dict[str, Any]) -> None:
        data["provenance"]["details"]["writer"] = "of another build"

    assert _forge(copy, older) == []
    assert any("another build" in note for note in verify(copy).notes)


def _leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in members:
        found.append((*path, key))
        if isinstance(value, (dict, list)):
            found += _leaves(value, (*path, key))
    return found


@pytest.mark.parametrize("value", [None, "x", -1, [], {}, "missing"])
def test_a_report_of_other_shape_fails_and_never_raises(copy: Path, value: Any) -> None:
    """Any member of report.json replaced or removed, with fresh hashes: an answer, no traceback."""
    path = copy / "report.json"
    original = path.read_text()
    chance = random.Random(str(value))
    for place in chance.sample(_leaves(json.loads(original)), 4):
        data = json.loads(original)
        inside = data
        for key in place[:-1]:
            inside = inside[key]
        if value == "missing" and isinstance(inside, dict):
            del inside[place[-1]]
        else:
            inside[place[-1]] = value
        path.write_text(json.dumps(data))
        _sign_again(copy)
        assert not verify(copy).is_verified, place
