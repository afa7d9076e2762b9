"""A trace of a window, by the profiler of the server itself."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.http_client import ServerError
from assay.load.workloads.workload import Workload
from assay.openai_api.address import ServerAddress
from assay.openai_api.exchange import exchange

TRACED_TOKENS: Final = 32
"""Output tokens of a request that PyTorch's profiler records: each step is thousands of events."""
_WRITTEN_S: Final = 120.0
"""How long a server may take to write its trace after the window."""
_SETTLE_S: Final = 0.5
_PROFILE_S: Final = 300.0


def capture(
    address: ServerAddress, kind: str, source: Path, folder: Path, run: Callable[[], object]
) -> Path:
    """Profile while `run` works; the trace is stored as `folder`, in Assay's format.

    `source` is where a server of kind kineto writes its PyTorch traces.
    """
    before = _written(source)
    _post(address, "/start_profile")
    try:
        run()
    finally:
        # A server must not be left profiling, whatever happens here.
        said = _post(address, "/stop_profile")
    if kind == "assay":
        return _moved(said, folder)
    return _imported(source, before, folder)


def shortened(workload: Workload, tokens: int) -> Workload:
    """The workload with shorter outputs."""
    requests = (
        replace(request, max_tokens=min(request.max_tokens, tokens))
        for request in workload.requests
    )
    return replace(workload, requests=tuple(requests))


def _post(address: ServerAddress, path: str) -> bytes:
    return exchange(address, path, method="POST", timeout_s=_PROFILE_S)


def _moved(said: bytes, folder: Path) -> Path:
    path = Path(json.loads(said)["trace"])
    if not path.is_dir():
        raise ServerError(f"expected the trace {path} on this machine, got no such folder")
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, folder)
    return folder


def _written(source: Path) -> dict[Path, tuple[int, int]]:
    """PyTorch traces of a folder with their times and sizes."""
    traces = [path for path in source.rglob("*") if path.name.endswith((".json", ".json.gz"))]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in traces}


def _imported(source: Path, before: dict[Path, tuple[int, int]], folder: Path) -> Path:
    """Wait until the server's files do not grow any more, and import them."""
    from assay.observe.importers import ranks
    from assay.observe.importers.detect import open_trace

    deadline = time.monotonic() + _WRITTEN_S
    last: dict[Path, tuple[int, int]] = {}
    while True:
        now = {path: mark for path, mark in _written(source).items() if before.get(path) != mark}
        if now and now == last:
            break
        if time.monotonic() > deadline:
            raise InputError(f"expected a trace in {source} within {_WRITTEN_S:g} s, got none")
        last = now
        time.sleep(_SETTLE_S)
    # The front end of a server writes a trace of its own, without kernels.
    traces = [open_trace(path) for path in sorted(now)]
    useful = [trace for trace in traces if (trace.events["kind"] == "kernel").any()] or traces
    trace = (
        useful[0] if len(useful) == 1 else ranks.merge(useful, [str(n) for n in range(len(useful))])
    )
    trace.save(folder)
    return folder
