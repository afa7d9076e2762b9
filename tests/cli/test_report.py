"""`assay report` and `assay verify-report`: text, JSON, files, exit codes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_run import make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "20260101-000000-sample-0000"
    make_run(folder)
    return str(folder)


def test_the_report_as_text(cli: Callable[..., Any], folder: str) -> None:
    outcome = cli("report", folder)
    assert outcome.code == 0
    first, second, *rest = outcome.out.splitlines()
    assert first.startswith("Output throughput 1.7")
    assert second == "smollm2-135m, assay 0.1.0, Example CPU, 2 cores, workload decode"
    assert any(line.startswith("kv_format=int8") and line.endswith("OOM") for line in rest)
    assert outcome.out.rstrip().endswith("report.html")


def test_the_report_as_markdown_is_the_stored_one(cli: Callable[..., Any], folder: str) -> None:
    assert cli("report", folder, "--text").out == (Path(folder) / "report.md").read_text()


def test_the_keys_of_the_report(cli: Callable[..., Any], folder: str) -> None:
    data = json.loads(cli("report", folder, "--json").out)
    assert list(data) == ["run", "report", "format", "provenance", "claims"]
    assert list(data["claims"][0]) == [
        "name", "statement", "figure", "unit", "evidence", "intervention", "verdict", "details",
    ]  # fmt: skip
    assert list(data["provenance"]) == [
        "run", "created_at", "assay_version", "fingerprint", "journal_head", "files",
        "degradations", "details",
    ]  # fmt: skip


def test_the_page_is_copied_as_it_is(cli: Callable[..., Any], folder: str, tmp_path: Path) -> None:
    assert cli("report", folder, "--html", str(tmp_path / "page.html")).code == 0
    assert (tmp_path / "page.html").read_bytes() == (Path(folder) / "report.html").read_bytes()


def test_a_verified_run(cli: Callable[..., Any], folder: str) -> None:
    outcome = cli("verify-report", folder)
    assert outcome.code == 0
    assert outcome.out.startswith("verified  run ")
    data = json.loads(cli("verify-report", folder, "--json").out)
    assert list(data) == ["run", "verified", "checks"]
    assert data["verified"] is True
    assert list(data["checks"][0]) == ["name", "passed", "statement"]


def test_an_edited_run_exits_with_1_and_names_what_failed(
    cli: Callable[..., Any], folder: str, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(folder, tmp_path / "run"))
    path = run / "report.md"
    path.write_text(path.read_text().replace("1.7", "1.9", 1))
    outcome = cli("verify-report", str(run))
    assert outcome.code == 1
    assert "report.md" in outcome.out
    assert "is not verified: 2 of" in outcome.err


def test_an_unknown_run_is_bad_input(cli: Callable[..., Any], tmp_path: Path) -> None:
    outcome = cli("verify-report", "no-such-run")
    assert outcome.code == 2
    assert "no-such-run" in outcome.err


def test_a_report_is_written_again_only_where_it_holds(
    cli: Callable[..., Any], folder: str, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(folder, tmp_path / "20260101-000000-sample-0001"))
    assert cli("report", str(run), "--rewrite").code == 0
    assert cli("verify-report", str(run)).code == 0
    path = run / "report.md"
    path.write_text(path.read_text().replace("1.7", "1.9", 1))
    outcome = cli("report", str(run), "--rewrite")
    assert outcome.code == 1
    assert "stays as it is: report.md" in outcome.err
