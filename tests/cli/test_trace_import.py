"""`assay trace import`: a file, several ranks, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.observe.trace import Trace

KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))


def write(path: Path, events: list[dict[str, Any]], **described: Any) -> str:
    path.write_text(json.dumps({**described, "traceEvents": events}))
    return str(path)


def test_a_file_is_stored(cli: Any, tmp_path: Path) -> None:
    file = write(
        tmp_path / "rank 0.pt.trace.json", [KERNEL, {**KERNEL, "dur": -1}], baseTimeNanoseconds=1
    )
    outcome = cli("trace", "import", file, "--json")
    assert outcome.code == 0
    data = outcome.data
    stored = Path(data["path"])
    assert stored.parent == tmp_path / "scratch" / "traces"
    assert stored.name.startswith("rank-0-")
    assert data == {
        "files": [file],
        "path": str(stored),
        "name": stored.name,
        "bytes": sum(one.stat().st_size for one in stored.iterdir()),
        "source": "kineto",
        "clock": "realtime",
        "events": 2,
        "kinds": {"kernel": {"count": 2, "ns": 2000}},
        "repairs": {"negative duration, taken as 0": 1},
        "degradations": [],
    }
    assert Trace.open(stored).events["start_ns"].to_list() == [1501, 1501]
    text = cli("trace", "import", file, "--out", str(tmp_path / "here"))
    assert f"{tmp_path / 'here'}: 2 events" in text.out
    assert "mended: negative duration, taken as 0 (1)" in text.out
    assert cli("trace", "list", "--json").data["traces"][0]["name"] == stored.name


def test_ranks_are_stored_as_one_trace(cli: Any, tmp_path: Path) -> None:
    files = [
        write(
            tmp_path / f"{rank}.json",
            [{**KERNEL, "dur": rank}],
            distributedInfo={"rank": rank},
            baseTimeNanoseconds=rank,
        )
        for rank in (2, 1)
    ]
    unknown = write(tmp_path / "u.json", [{**KERNEL, "dur": 0}])
    outcome = cli("trace", "import", *files, unknown, "--out", str(tmp_path / "all"), "--json")
    events = Trace.open(tmp_path / "all").events
    assert events.select("rank", "start_ns", "dur_ns").rows() == [
        (2, 1502, 2000),
        (1, 1501, 1000),
        (0, 1500, 0),
    ]
    said = outcome.data["degradations"]
    assert f"{unknown}: states no rank; taken as 0" in said
    assert "the clocks of the files are not known to agree" in said
    twice = cli("trace", "import", files[0], files[0], "--out", str(tmp_path / "two"), "--json")
    assert f"{files[0]}: its rank 2 is another file's, too" in twice.data["degradations"]


def test_refusals_leave_nothing_behind(cli: Any, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"traceEvents": [{"ph": }]}')
    (tmp_path / "there").mkdir()
    good = write(tmp_path / "good.json", [KERNEL])
    for words, error in (
        ((str(wrong), "--out", str(tmp_path / "new")), "byte 24: expected a value"),
        ((str(tmp_path / "no.json"), "--out", str(tmp_path / "new")), "got nothing of that name"),
        ((good, "--out", str(tmp_path / "there")), "exists already"),
        ((str(tmp_path), "--out", str(tmp_path / "new")), "got a folder without header.json"),
    ):
        outcome = cli("trace", "import", *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert error in outcome.err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["good.json", "there", "wrong.json"]
