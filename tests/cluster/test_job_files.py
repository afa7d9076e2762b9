"""Files of a job: Ray's folder goes and comes back under a running process, the copy stays."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.cluster.job_files import FILES, described, enter_files
from assay.cluster.parts import perform
from assay.errors import InputError


class RayFolder:
    """Where Ray unpacks the files of a job, and what happens to it between two looks."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.steps: list[Callable[[], None]] = []
        self.unpack()
        monkeypatch.setenv(FILES, described(path))
        monkeypatch.setenv("ASSAY_SCRATCH", str(path.parent / "scratch"))
        monkeypatch.setattr(sys, "path", [*sys.path, str(path)])
        monkeypatch.chdir(path)
        monkeypatch.setattr(time, "sleep", lambda seconds: self.steps.pop(0)())

    def unpack(self, requests: str = '{"prompt": "a"}\n') -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / "2-requests.jsonl").write_text(requests)
        (self.path / "assay-job.txt").write_text("20261118-000000-run-ab12")

    def remove(self) -> None:
        shutil.rmtree(self.path)


@pytest.fixture
def ray_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RayFolder:
    return RayFolder(tmp_path / "_ray_pkg_1", monkeypatch)


def test_files_are_described_by_digest(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1")
    (tmp_path / "folder").mkdir()
    assert json.loads(described(tmp_path)) == {"a.csv": hashlib.sha256(b"1").hexdigest()}


def test_a_copy_outlives_the_folder_that_another_node_unpacks_anew(ray_folder: RayFolder) -> None:
    enter_files()
    ray_folder.remove()
    assert Path("2-requests.jsonl").read_text() == '{"prompt": "a"}\n'
    # Again, as for every part: nothing is looked for any more.
    enter_files()
    assert Path.cwd() != ray_folder.path


def test_files_that_are_being_unpacked_are_waited_for(ray_folder: RayFolder) -> None:
    ray_folder.remove()
    ray_folder.steps = [
        lambda: None,
        lambda: ray_folder.unpack('{"prom'),
        lambda: ray_folder.unpack(),
    ]
    enter_files()
    assert ray_folder.steps == []
    assert Path("2-requests.jsonl").read_text() == '{"prompt": "a"}\n'


def test_a_damaged_copy_is_made_again(
    ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_files()
    copy = Path.cwd()
    (copy / "2-requests.jsonl").write_text("other")
    monkeypatch.setattr(sys, "path", [str(ray_folder.path)])
    enter_files()
    assert (copy / "2-requests.jsonl").read_text() == '{"prompt": "a"}\n'


def test_files_that_never_come_are_named(ray_folder: RayFolder) -> None:
    ray_folder.unpack("another content")
    with pytest.raises(InputError, match=r"expected 2-requests\.jsonl as submitted, got none such"):
        enter_files(-1.0)
    assert Path.cwd() == ray_folder.path


def test_a_part_without_its_files_is_refused(
    ray_folder: RayFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.cluster.code import code_digest

    monkeypatch.setattr(enter_files, "__defaults__", (-1.0,))
    ray_folder.remove()
    os.chdir(ray_folder.path.parent)
    answer = json.loads(perform("builtins:len", "[]", "1", code_digest()))
    assert "expected 2-requests.jsonl, assay-job.txt as submitted" in answer["error"]["message"]
    assert answer["error"]["exit_code"] == 2


def test_a_process_of_no_job_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FILES, raising=False)
    monkeypatch.chdir(tmp_path)
    enter_files()
    assert Path.cwd() == tmp_path
