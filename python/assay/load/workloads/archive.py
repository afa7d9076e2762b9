"""Workloads as JSON lines: what a run asked for, kept so that it can be asked again, byte for byte.

The first line describes the workload; each line after it is a request that `readers/jsonl.py` reads,
with or without the first line.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import InputError
from assay.load.workloads.readers.jsonl import HEADER
from assay.load.workloads.readers.recorded import MAX_LINE, opened
from assay.load.workloads.workload import (
    ARRIVALS,
    Objective,
    PlannedRequest,
    ServiceLevel,
    Workload,
)

VERSION: Final = 1


def save(workload: Workload, path: Path) -> str:
    """Write a workload; returns its `workload_hash`."""
    with paths.replacing(path) as file:
        for line in _lines(workload):
            file.write(line.encode() + b"\n")
    return workload_hash(workload)


def workload_hash(workload: Workload) -> str:
    """SHA-256 of what an engine is asked: the requests, and how they arrive.

    Names, notes and objectives are not part of it: they change nothing that is sent.
    """
    digest = hashlib.sha256()
    how = {"arrival": workload.arrival, "concurrency": workload.concurrency, "rate": workload.rate}
    digest.update(_json(how).encode())
    for request in workload.requests:
        digest.update(b"\n" + _json(_row(request, workload.arrival)).encode())
    return digest.hexdigest()


def read_header(path: Path) -> Workload | None:
    """The workload of a saved file without its requests; None for other files."""
    with opened(path) as file:
        line = file.readline(MAX_LINE)
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or HEADER not in data:
        return None
    if data[HEADER] != VERSION:
        raise InputError(
            f"{path}: expected a workload of version {VERSION}, got {str(data[HEADER])[:40]!r}"
        )
    try:
        return _described(data)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: expected a saved workload, got: {str(error)[:120]}") from None


def _described(data: Mapping[str, Any]) -> Workload:
    if data["arrival"] not in ARRIVALS:
        raise ValueError(f"arrival {data['arrival']!r}")
    objective = Objective(str(data["objective"]["metric"]), data["objective"]["better"])
    if objective.better not in ("higher", "lower"):
        raise ValueError(f"better {objective.better!r}")
    return Workload(
        str(data["name"]),
        str(data["description"]),
        (),
        str(data["arrival"]),
        None if data["concurrency"] is None else int(data["concurrency"]),
        None if data["rate"] is None else float(data["rate"]),
        objective,
        ServiceLevel(**{name: _limit(value) for name, value in data["slo"].items()}),
        str(data["source"]),
        tuple(str(note) for note in data["notes"]),
    )


def _limit(value: Any) -> float | None:
    return None if value is None else float(value)


def _lines(workload: Workload) -> Iterator[str]:
    data = dataclasses.asdict(dataclasses.replace(workload, requests=()))
    del data["requests"]
    yield _json({HEADER: VERSION, **data})
    for request in workload.requests:
        row = _row(request, workload.arrival)
        if request.prompt_tokens:
            row["prompt_tokens"] = request.prompt_tokens
        yield _json(row)


def _row(request: PlannedRequest, arrival: str) -> dict[str, Any]:
    row: dict[str, Any] = {"max_tokens": request.max_tokens}
    # The text of a conversation follows from its messages.
    row |= {"messages": request.messages} if request.messages else {"prompt": request.prompt}
    if arrival != "closed" or request.arrival_s:
        row["arrival_s"] = request.arrival_s
    if request.prefix_tokens:
        row["prefix_tokens"] = request.prefix_tokens
    if request.sampling:
        row["sampling"] = dict(request.sampling)
    if request.fields:
        row["fields"] = dict(request.fields)
    return row


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)
