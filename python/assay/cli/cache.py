"""`assay cache`: what the scratch folder holds, and how to remove it."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from assay import paths
from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, count, size, table
from assay.errors import InputError, unknown_name

KINDS: Final = {
    "registry": "declarations of the model, rebuilt on the next query",
    "tapes": "compiled questions, compiled again when asked again",
    "points": "sample points of sensitivity analyses",
    "headlines": "figures of the first page of assay ui, computed again when it is opened",
    "validation": "predictions of published figures for assay ui, made again when it shows them",
    "cubins": "compiled CUDA kernels, compiled again on first use",
    "stores": "indexes of stores, made again from them",
    "parts": "parts of sweeps and searches that are done, run again when asked again",
    "job-files": "files that came with jobs of a cluster, brought again by the next",
    "patterns": "random weights of benchmark models",
    "vllm": "arguments of the installed vLLM",
    "data-sets": "staged data of claims, copied or downloaded again by assay bench manifest build",
    "calibration": "measured ceilings of machines: assay calibrate measures this one again",
    "models": "downloaded models; assay pull downloads them again",
    "traces": "stored traces, which cannot be made again",
    "telemetry": "recorded samples of machines, which cannot be made again",
    "runs": "records of runs and experiments, which cannot be made again",
    "jobs": "commands that were submitted to clusters, with their files",
}
"""Every kind of data in the scratch folder, and what its removal costs."""

NAMED: Final = ("models", "traces", "telemetry", "runs", "jobs")
"""Kinds that are removed only when they are named."""

ACTIONS: Final = ("list", "clear")


def cache_command(
    action: Annotated[str, argument("list|clear", "Action; list if not given.")] = "list",
    kinds: Annotated[
        list[str] | None,
        argument(
            "[KIND]...", "clear: kinds to remove; all but models, traces, telemetry, runs and jobs."
        ),
    ] = None,
    dry_run: Annotated[bool, option("--dry-run", "clear: only say what would be removed.")] = False,
    as_json: options.Json = False,
) -> Report:
    """List cached data with its size, or remove it.

    What was computed can be computed again. Downloaded models, traces, telemetry, runs and jobs are
    removed only by name: `assay cache clear models`.
    """
    if action not in ACTIONS:
        raise unknown_name("action", action, ACTIONS)
    chosen = list(dict.fromkeys(kinds or ()))
    for kind in chosen:
        if kind not in KINDS:
            raise unknown_name("kind", kind, KINDS)
    if action == "list":
        if chosen or dry_run:
            raise InputError("assay cache list takes neither kinds nor --dry-run")
        return _listing(as_json)
    return _clearing(chosen or [kind for kind in KINDS if kind not in NAMED], dry_run, as_json)


def _folder(kind: str) -> Path:
    return paths.scratch() / kind if kind in NAMED else paths.cache(kind)


def _measure(folder: Path) -> tuple[int, int]:
    """Files below a folder and their bytes; another process may remove one meanwhile."""
    files = total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                files, total = files + 1, total + path.stat().st_size
    return files, total


def _rows(kinds: list[str]) -> list[dict[str, Any]]:
    rows = []
    for kind in kinds:
        files, nbytes = _measure(_folder(kind))
        rows.append({"kind": kind, "files": files, "bytes": nbytes, "path": str(_folder(kind))})
    return rows


def _listing(as_json: bool) -> Report:
    rows = _rows(list(KINDS))
    total = sum(row["bytes"] for row in rows)

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"{paths.scratch()}: {size(total)}"
        yield ""
        cells: list[tuple[Part, ...]] = [
            (
                (row["kind"], styles.NAME),
                f"{row['files']:,}",
                size(row["bytes"]),
                KINDS[row["kind"]],
            )
            for row in rows
        ]
        yield from table(("kind", "files", "size", "contents"), cells, canvas, right=(1, 2))

    data = {"path": str(paths.scratch()), "bytes": total, "kinds": rows}
    return Report(data, text, as_json)


def _clearing(kinds: list[str], dry_run: bool, as_json: bool) -> Report:
    rows = [row for row in _rows(kinds) if row["files"]]
    if not dry_run:
        for row in rows:
            shutil.rmtree(row["path"])

    def text(canvas: Canvas) -> Iterator[Line]:
        verb = "would remove" if dry_run else "removed"
        for row in rows:
            yield f"{verb} {row['kind']}: {count(row['files'], 'file')}, {size(row['bytes'])}"
        if not rows:
            yield "nothing to remove"

    return Report({"dry_run": dry_run, "removed": rows}, text, as_json)
