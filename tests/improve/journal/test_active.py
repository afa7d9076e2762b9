"""Markers of runs under way name the processes that look after them."""

from pathlib import Path

import pytest

from assay.improve.engines.process import ServerRecord
from assay.improve.journal import active
from assay.improve.journal.run_folder import RunFolder


def test_a_process_without_a_command_line_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    tries: list[int] = []

    def identify(pid: int) -> ServerRecord | None:
        tries.append(pid)
        return ServerRecord(("watchdog",), pid=pid) if len(tries) > 2 else None

    monkeypatch.setattr(active, "identify", identify)
    monkeypatch.setattr(active, "is_alive", lambda pid: pid != 0)
    active.mark(RunFolder(tmp_path / "runs" / "a-run"), 0, 7)
    (marked,) = active.active_runs()
    assert marked.watchdog is not None
    assert marked.watchdog.argv == ("watchdog",)
