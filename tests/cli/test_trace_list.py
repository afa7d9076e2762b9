from pathlib import Path
from typing import Any

import pytest

from assay.observe.header import TraceHeader


@pytest.fixture
def stored_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    for name, text in (
        ("good", TraceHeader(source="kineto", model="llama").to_json()),
        ("broken", "{"),
    ):
        path = tmp_path / "traces" / name
        path.mkdir(parents=True)
        (path / "header.json").write_text(text)
    return tmp_path / "traces"


def test_a_listing_of_stored_traces(cli: Any, stored_traces: Path) -> None:
    outcome = cli("trace", "list")
    assert outcome.code == 0
    assert "2 stored" in outcome.out
    assert "cannot be read" in outcome.out
    rows = {row["name"]: row for row in cli("trace", "list", "--json").data["traces"]}
    assert (rows["good"]["source"], rows["good"]["readable"]) == ("kineto", True)
    assert (rows["broken"]["source"], rows["broken"]["readable"]) == (None, False)


def test_no_traces(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    outcome = cli("trace", "list")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "no stored traces"
