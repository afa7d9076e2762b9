"""Where a server runs: its GPU by the device files it holds open, and this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

from assay.improve.engines.process import descendants

_NVIDIA: Final = "/dev/nvidia"


def gpu_of(pid: int) -> int | None:
    """The first NVIDIA GPU that a process or its children hold open; None for a CPU server."""
    gpus = []
    for descendant in descendants(pid):
        for name in _open_files(descendant):
            number = name.removeprefix(_NVIDIA)
            if name != number and number.isdecimal():
                gpus.append(int(number))
    return min(gpus, default=None)


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
