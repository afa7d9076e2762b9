"""Items to push, a store in a folder and one in a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_server import S3Server, environment, s3_server
from store_items import Making

from assay.store.describing import Item
from assay.store.layout import init_store


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    return tmp_path / "scratch"


@pytest.fixture
def make_item(tmp_path: Path) -> Making:
    def make(name: str, files: dict[str, bytes], **more: object) -> Item:
        folder = tmp_path / "items" / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        options = {"kind": "run", "created_at": 1_000.0, **more}
        return Item(name=name, files={path: folder / path for path in files}, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    pytest.importorskip("obstore")
    with s3_server() as server:
        for name, value in environment(server).items():
            monkeypatch.setenv(name, value)
        # An error is an answer, not a reason to wait: retries have a test of their own.
        monkeypatch.setattr("assay.store.bucket._RETRIES", 0)
        yield server


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, scratch: Path) -> str:
    """A store of each kind."""
    if request.param == "bucket":
        request.getfixturevalue("s3")
    where = str(tmp_path / "store") if request.param == "folder" else "s3://bucket/team"
    init_store(where)
    return where
