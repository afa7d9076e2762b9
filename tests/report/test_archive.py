"""Archived runs: every byte arrives, or an error says which did not."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.improve.loop.record import RunRecord
from assay.report import archive as archives
from assay.report.archive import ArchiveError, archive
from assay.report.verify import verify

Finished = tuple[Path, RunRecord]


def test_a_copy_in_a_folder_verifies_by_itself(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    done = archive(finished[0])
    assert done is not None
    place = Path(done.place)
    assert place == tmp_path / "store" / "runs" / finished[0].name
    assert verify(place).is_verified
    checked = subprocess.run(
        ["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=place, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert done.files == len(list(finished[0].iterdir()))


def test_a_run_that_went_on_replaces_its_copy(finished: Finished, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished[0], tmp_path / finished[0].name))
    archive(run, str(tmp_path / "store"))
    (run / "later.txt").write_text("more")
    done = archive(run, str(tmp_path / "store"))
    assert done is not None
    assert (Path(done.place) / "later.txt").read_text() == "more"
    assert [one.name for one in Path(done.place).parent.iterdir()] == [run.name]


def test_bytes_that_change_on_the_way_are_caught(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaging(source: Path, target: Path) -> None:
        content = bytearray(Path(source).read_bytes())
        content[len(content) // 2] ^= 1
        Path(target).write_bytes(content)

    monkeypatch.setattr(archives.shutil, "copyfile", damaging)
    with pytest.raises(ArchiveError, match="did not arrive as it was sent"):
        archive(finished[0], str(tmp_path / "store"))
    assert list((tmp_path / "store" / "runs").iterdir()) == []


def test_without_a_store_nothing_is_copied(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    assert archive(finished[0]) is None


@pytest.mark.parametrize("store", ["s3://", "s3://key:secret@bucket/x", "gs://bucket"])
def test_other_places_are_refused_without_printing_keys(finished: Finished, store: str) -> None:
    with pytest.raises(InputError) as error:
        archive(finished[0], store)
    assert "secret" not in error.value.message


def test_a_copy_in_a_bucket(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore's store in memory takes the place of a server."""
    obstore = pytest.importorskip("obstore")
    memory = obstore.store.MemoryStore()
    monkeypatch.setattr(archives, "open_bucket", lambda *_, **__: memory)
    done = archive(finished[0], "s3://bucket/team")
    assert done is not None
    assert done.place == f"s3://bucket/team/runs/{finished[0].name}"
    stored = {one["path"] for batch in obstore.list(memory) for one in batch}
    assert stored == {*(one.name for one in finished[0].iterdir()), "SHA256SUMS"}
    sums = bytes(obstore.get(memory, "SHA256SUMS").bytes()).decode()
    for line in sums.splitlines():
        digest, _, name = line.partition("  ")
        content = bytes(obstore.get(memory, name).bytes())
        assert hashlib.sha256(content).hexdigest() == digest


def test_a_bucket_that_cannot_be_reached_is_one_line(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(archives, "_RETRIES", 0)
    with pytest.raises(ArchiveError, match="cannot be written") as error:
        archive(finished[0], "s3://bucket/team")
    assert "very-secret" not in error.value.message
    assert "\n" not in error.value.message
