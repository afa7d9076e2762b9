"""A timeline as one HTML file that needs nothing else: styles, program and data are inside."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.answers import data_of
from assay.escaping import one_line
from assay.lazy_import import pl
from assay.observe.timeline.blocks import encode
from assay.observe.timeline.view import degradations

if TYPE_CHECKING:
    from assay.observe.timeline.lanes import Lane, Layout
    from assay.observe.timeline.window import Window
    from assay.observe.trace import Trace

FORMAT = 1
"""The version of the embedded data; the program in the page is of the same build."""


def write_page(
    trace: Trace,
    drawn: Layout,
    path: Path,
    *,
    name: str,
    progress: Callable[[str], None] | None = None,
) -> tuple[int, list[str]]:
    """Write the page, all of it or nothing; its size in bytes, and what was left out."""
    say = progress or (lambda text: None)
    say("compressing columns")
    blocks, left_out = timeline_blocks(trace, drawn, name)
    say(f"writing {path}")
    return _write(path, _parts(name, blocks)), left_out


def timeline_blocks(trace: Trace, drawn: Layout, name: str) -> tuple[dict[str, bytes], list[str]]:
    """What the page program reads, by name, each compressed; and what was left out."""
    # A track is a run of rows, so that the page finds what is visible by bisection.
    order = drawn.order[np.lexsort((drawn.start, drawn.track, _lane_of_row(drawn)))]
    packed = encode(drawn.events, order, drawn.origin_ns)
    description = {
        "format": FORMAT,
        "name": name,
        "rows": drawn.events.height,
        "origin_ns": str(drawn.origin_ns),
        "end": drawn.end_ns - drawn.origin_ns,
        "header": _header(trace),
        "degradations": [*degradations(trace, drawn), *packed.left_out],
        "columns": packed.columns,
        "lanes": [_lane(drawn, lane) for lane in drawn.lanes],
        "steps": _steps(trace, drawn.origin_ns),
    }
    described = zlib.compress(json.dumps(description).encode())
    return {"description": described, **packed.blocks}, packed.left_out


def address(path: Path, drawn: Layout, window: Window) -> str:
    """The address that opens the page at a window."""
    whole = path.resolve().as_uri()
    if window.step is not None:
        return f"{whole}#step={window.step}"
    low, high = window.from_ns - drawn.origin_ns, window.to_ns - drawn.origin_ns
    is_whole = low == 0 and window.to_ns == drawn.end_ns
    return whole if is_whole else f"{whole}#from={low}&to={high}"


def _parts(name: str, blocks: dict[str, bytes]) -> list[str]:
    """The parts of the file. No text of the trace is in it but the title: blocks are base64."""
    style, program = asset("timeline.css"), asset("timeline.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(program)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(one_line(name))} - timeline</title>\n"
        f'<style>{style}</style>\n</head>\n<body>\n<div id="timeline"></div>\n'
        "<noscript>This timeline is drawn by the script in this file, which is switched off."
        "</noscript>\n"
    )
    data = [
        f'<script type="application/octet-stream" data-block="{escape(block)}">'
        f"{base64.b64encode(content).decode()}</script>\n"
        for block, content in blocks.items()
    ]
    return [head, *data, f"<script>{program}</script>\n</body>\n</html>\n"]


def asset(name: str) -> str:
    """A file of the built page program (`web/`)."""
    return files("assay.observe.timeline").joinpath("assets", name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _write(path: Path, parts: list[str]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, staging = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(parts)
        # A temporary file is private; a page has the permissions of any other file.
        mask = os.umask(0)
        os.umask(mask)
        Path(staging).chmod(0o666 & ~mask)
        Path(staging).replace(path)
    except BaseException:
        Path(staging).unlink(missing_ok=True)
        raise
    return path.stat().st_size


def _lane_of_row(drawn: Layout) -> Any:
    return np.repeat(np.arange(len(drawn.lanes)), [lane.count for lane in drawn.lanes])


def _lane(drawn: Layout, lane: Lane) -> dict[str, Any]:
    counts = np.bincount(drawn.track[lane.rows], minlength=lane.tracks)
    return {**data_of(lane, "name group kind first"), "tracks": counts.tolist()}


def _header(trace: Trace) -> dict[str, Any]:
    header = trace.header
    return data_of(header, "source engine model clock overhead repairs versions")


def _steps(trace: Trace, origin_ns: int) -> list[dict[str, Any]]:
    """Steps over all ranks: from the first start to the last end."""
    known = trace.steps.filter(pl.col("start_ns").is_not_null() & pl.col("step").is_not_null())
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    return (
        known.group_by("step")
        .agg(
            (pl.col("start_ns").min() - origin_ns).alias("start"),
            (end.max() - origin_ns).alias("end"),
            pl.col("phase").first(),
            pl.col("device_ns", "batch", "prefill_tokens", "context", "requests").max(),
            pl.col("source").first(),
        )
        .sort("start", "step")
        .to_dicts()
    )
