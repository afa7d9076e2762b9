"""The journal on disk: one writer, torn writes, a full disk, a clock that jumps."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.improve.journal import journal as journals
from assay.improve.journal.faults import VARIABLE, reached
from assay.improve.journal.journal import Journal, JournalError, read, verify
from assay.improve.journal.records import KINDS


def test_records_are_on_disk_when_append_returns(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        first = journal.append("started", command="assay run")
        second = journal.append("finished", verdict="improved")
        reading = read(tmp_path)
    assert [one.hash for one in reading.records] == [first.hash, second.hash]
    assert reading.last("started", "intend") == first
    assert reading.status() == "2 records, chain intact"
    assert verify(tmp_path).head == second.hash


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    with Journal.create(tmp_path), pytest.raises(JournalError, match="another process"):
        Journal.open(tmp_path)
    with Journal.open(tmp_path) as journal:
        journal.append("resumed")
    assert len(verify(tmp_path).records) == 1


def test_a_second_run_does_not_overwrite_the_first(tmp_path: Path) -> None:
    Journal.create(tmp_path).close()
    with pytest.raises(JournalError, match="exists"):
        Journal.create(tmp_path)


def test_unknown_kinds_are_refused(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal, pytest.raises(InputError, match="unknown kind"):
        journal.append("guess")
    assert read(tmp_path).records == ()


def test_an_unfinished_write_is_cut_off_and_recorded(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append("started")
    with (tmp_path / journals.NAME).open("ab") as file:
        file.write(b'{"at":17')
    reading = read(tmp_path)
    assert (reading.problems, reading.torn_bytes) == ((), 8)
    with pytest.raises(JournalError, match="did not finish") as raised:
        verify(tmp_path)
    assert "assay rollback" in str(raised.value.hint)
    Journal.open(tmp_path).close()
    records = verify(tmp_path).records
    assert [one.kind for one in records] == ["started", "torn"]
    assert records[1].data == {"bytes": 8, "text": '{"at":17'}


def test_a_record_that_was_written_but_not_acknowledged_is_kept(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append("started")
        head = (tmp_path / journals.HEAD_NAME).read_bytes()
        journal.append("block", value=2.5)
    # The process died between the line and the head.
    (tmp_path / journals.HEAD_NAME).write_bytes(head)
    assert read(tmp_path).is_intact
    with Journal.open(tmp_path) as journal:
        assert len(journal) == 2


def test_a_journal_edited_in_the_middle_is_refused(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append("block", value=2.5)
        journal.append("block", value=3.5)
    path = tmp_path / journals.NAME
    path.write_bytes(path.read_bytes().replace(b"2.5", b"9.5"))
    with pytest.raises(JournalError, match="damaged: line 1: its hash"):
        Journal.open(tmp_path)
    with pytest.raises(JournalError, match="does not verify"):
        verify(tmp_path)


def test_a_missing_head_is_a_problem(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append("started")
    (tmp_path / journals.HEAD_NAME).unlink()
    assert "are not excluded" in read(tmp_path).status()


def test_the_wall_clock_may_jump(tmp_path: Path) -> None:
    times = iter([1e9, 1e9 + 3600, 5.0, 1e9 + 1])
    with Journal.create(tmp_path, clock=lambda: next(times)) as journal:
        for value in range(4):
            journal.append("block", value=value)
    assert [one.data["value"] for one in verify(tmp_path).records] == [0, 1, 2, 3]


FULL_DISK = """
import sys
from pathlib import Path
from assay.improve.journal.journal import Journal, JournalError, verify
folder = Path(sys.argv[1]) / "run"
journal = Journal.create(folder)
written = 0
try:
    while True:
        journal.append("block", padding="x" * 3000)
        written += 1
except JournalError as error:
    print(error)
# What undoes a change can still be recorded.
journal.append("reverting", why="disk full")
journal.append("reverted", changes=[0])
reading = verify(folder)
assert len(reading.of("block")) == written
print(len(reading.of("block")), [one.kind for one in reading.records[-2:]])
"""


def test_a_full_disk_leaves_the_journal_whole_and_room_to_go_back(tmp_path: Path) -> None:
    script = tmp_path.parent / "full_disk.py"
    script.write_text(FULL_DISK)
    mount = f"mount -t tmpfs -o size=256k tmpfs {tmp_path} && {sys.executable} {script} {tmp_path}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount], capture_output=True, text=True, timeout=60
    )
    if "Operation not permitted" in done.stderr or "unshare failed" in done.stderr:
        pytest.skip("this machine does not allow a mount in a user namespace")
    assert done.returncode == 0, done.stderr
    assert "cannot be written: No space left on device" in done.stdout
    assert done.stdout.rstrip().endswith("['reverting', 'reverted']")


@pytest.mark.parametrize("point", ["before", "torn"])
def test_a_failing_write_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append("started")
        reached.clear()
        monkeypatch.setenv(VARIABLE, f"journal.intend.{point}=full")
        with pytest.raises(JournalError, match=os.strerror(errno.ENOSPC)):
            journal.append("intend", changes={"threads": 2})
        assert verify(tmp_path).of("intend") == []
        journal.append("intend", changes={"threads": 2})
    assert len(verify(tmp_path).records) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_in_the_middle_of_any_record_loses_nothing_before_it(
    tmp_path: Path, kind: str
) -> None:
    # A fork, so that a kill of a real process costs milliseconds.
    child = os.fork()
    if child == 0:
        reached.clear()
        os.environ[VARIABLE] = f"journal.{kind}.torn=kill"
        journal = Journal.create(tmp_path)
        for value in range(3):
            if kind != "block":
                journal.append("block", value=value)
        journal.append(kind, value=3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == 9
    before = 0 if kind == "block" else 3
    assert read(tmp_path).torn_bytes > 0
    Journal.open(tmp_path).close()
    assert [one.kind for one in verify(tmp_path).records] == ["block"] * before + ["torn"]


@pytest.mark.parametrize("text", ["nonsense", "a=explode", "a=kill@x", "=kill"])
def test_a_fault_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with Journal.create(tmp_path) as journal, pytest.raises(InputError, match="cannot be read"):
        journal.append("started")
