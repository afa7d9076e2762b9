import json
from pathlib import Path

import pytest

from assay.observe import store
from assay.observe.header import TraceHeader


@pytest.fixture
def stored_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    for name, text in (
        ("good", TraceHeader(source="kineto", model="llama").to_json()),
        ("broken", "{"),
        ("later", json.dumps({"format": 99})),
    ):
        path = tmp_path / "traces" / name
        path.mkdir(parents=True)
        (path / "header.json").write_text(text)
    (tmp_path / "traces" / "not a trace").mkdir()
    return tmp_path / "traces"


def test_a_listing_names_what_cannot_be_read(stored_traces: Path) -> None:
    found = {one.name: one.header for one in store.stored()}
    assert set(found) == {"good", "broken", "later"}
    assert found["good"] == TraceHeader(source="kineto", model="llama")
    assert found["broken"] is found["later"] is None


def test_new_paths_do_not_exist(stored_traces: Path) -> None:
    first = store.new_path("decode")
    first.mkdir()
    second = store.new_path("decode")
    assert not second.exists()
    assert second.parent == stored_traces


def test_find_takes_paths_and_names(stored_traces: Path) -> None:
    assert store.find("good") == stored_traces / "good"
    assert store.find(str(stored_traces / "good")) == stored_traces / "good"
    assert store.find("nowhere") == Path("nowhere")
