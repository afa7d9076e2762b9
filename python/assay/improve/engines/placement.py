"""Where a server runs: its GPU by the device files it holds open, and this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.improve.engines.process import descendants

_NVIDIA: Final = "/dev/nvidia"


def gpu_of(pid: int) -> int | None:
    """The first NVIDIA GPU that a process or its children hold open; None for a CPU server.

    A container may have the fifth GPU of its host alone: among those that are here it is the first.
    """
    held = _numbers(name for child in descendants(pid) for name in _open_files(child))
    if not held:
        return None
    here = _numbers(map(str, Path(_NVIDIA).parent.glob(f"{Path(_NVIDIA).name}*")))
    return sum(number < min(held) for number in here)


def _numbers(files: Iterable[str]) -> set[int]:
    """The numbers of device files of GPUs."""
    numbers = (name.removeprefix(_NVIDIA) for name in files if name.startswith(_NVIDIA))
    return {int(number) for number in numbers if number.isdecimal()}


def hardware(gpu: int | None) -> dict[str, Any]:
    """This machine, as a fingerprint describes it."""
    from assay.runtime.fingerprint import machine
    from assay.runtime.hardware import device

    host = machine(device("cpu"))
    if gpu is None:
        return host.to_data()
    from assay.runtime.cuda import probe

    # The GPU is not opened: its memory is the server's.
    listed = probe().gpus
    if gpu >= len(listed):
        return {**host.to_data(), "device": f"cuda:{gpu}"}
    properties = listed[gpu]
    return replace(
        host,
        cache_bytes=properties.l2_bytes,
        device=f"cuda:{gpu}",
        device_description=properties.name,
    ).to_data()


def _open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    files = []
    try:
        for name in os.listdir(folder):
            try:
                files.append(os.readlink(f"{folder}/{name}"))
            except OSError:
                continue
    except OSError:
        return files
    return files
