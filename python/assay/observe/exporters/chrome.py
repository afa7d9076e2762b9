"""Chrome JSON, the format of chrome://tracing, in the words of Kineto.

Legacy: a track cannot hold slices that overlap without nesting, so those get a thread of their own,
and times are decimal microseconds. The exact row of the event table stands under `assay` in the
args of each event, the header and the steps at the top level. One event is one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from assay.lazy_import import np, pl
from assay.observe import json_rows, records
from assay.observe.exporters import tracks
from assay.observe.trace import Trace
from assay.paths import replacing

CATEGORIES: Final = {
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "host": "cpu_op",
    "api": "cuda_runtime",
    "range": "user_annotation",
    "overhead": "overhead",
    "instant": "cpu_instant_event",
}
"""Kineto's category of each kind, for events that have none of their own."""

ARGS: Final = {
    "device": "device",
    "stream": "stream",
    "correlation": "correlation",
    "external": "External id",
    "bytes": "bytes",
    "grid": "grid",
    "block": "block",
}
"""Columns that Kineto has among the args, and its names."""

ROW: Final = '"assay":'
"""Before the exact row. In a JSON string its quotes would be escaped."""

CLOSING: Final = "}}}"
"""What ends the line of an event: of the row, of the args, of the event."""

_LARGEST: Final = 2**31
"""Numbers of processes and threads beyond it are replaced: JavaScript would round them."""


def write(trace: Trace, path: Path, *, progress: Callable[[str], None] | None = None) -> None:
    """Write a trace as Chrome JSON."""
    drawn = tracks.layout(trace.events)
    numbers = _numbers(drawn.tracks)
    first = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": 0,
        "assay_trace": {
            **records.first_record(trace),
            "step_rows": json_rows.steps_data(trace.steps),
        },
    }
    with replacing(path) as file:
        file.write(json.dumps(first, allow_nan=False)[:-1].encode() + b',"traceEvents":[\n')
        # The first line has no comma before it, and all others have one.
        file.write(b'{"ph":"M","name":"assay","pid":0,"tid":0,"args":{}}\n')
        for named in _names(trace, drawn.tracks, numbers):
            file.write(b"," + json.dumps(named).encode() + b"\n")
        place = 0
        for rows in json_rows.to_lines(trace.events):
            chosen = slice(place, place + len(rows))
            place += len(rows)
            _write_lines(file, _slices(trace.events[chosen], rows, drawn, chosen, numbers))
            if progress:
                progress(f"{place:,} of {len(trace.events):,} events written")
        for flows in _flows(trace.events, drawn, numbers):
            _write_lines(file, flows)
        file.write(b"]}\n")


def _write_lines(file: BinaryIO, lines: pl.DataFrame) -> None:
    lines.write_csv(file, include_header=False, quote_style="never")


def _numbers(laid_out: list[tracks.Track]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of process and thread of each track: its own where they are free and small."""
    processes: dict[tuple[Any, ...], int] = {}
    threads: dict[tuple[int, Any], int] = {}
    taken: set[Any] = set()

    def number(wanted: int | None, scope: Any) -> int:
        free = wanted if wanted is not None and 0 <= wanted < _LARGEST else 0
        while (scope, free) in taken:
            free += 1
        taken.add((scope, free))
        return free

    for track in laid_out:
        if track[:3] not in processes:
            processes[track[:3]] = number(track.process, "process")
    for track in sorted(laid_out, key=lambda track: track.lane):
        process = processes[track[:3]]
        threads[process, track] = number(track.thread, process)
    pids = [processes[track[:3]] for track in laid_out]
    tids = [threads[processes[track[:3]], track] for track in laid_out]
    return np.array(pids, np.int64), np.array(tids, np.int64)


def _names(
    trace: Trace, laid_out: list[tracks.Track], numbers: tuple[np.ndarray, np.ndarray]
) -> Iterator[dict[str, Any]]:
    """The events that name processes and threads."""
    said = set()
    for track, pid, tid in zip(laid_out, *(number.tolist() for number in numbers), strict=True):
        event = {"ph": "M", "ts": 0, "pid": pid, "tid": tid}
        if pid not in said:
            said.add(pid)
            name = tracks.process_name(trace.header, track)
            yield {**event, "name": "process_name", "args": {"name": name}}
        name = tracks.thread_name(trace.header, track)
        yield {**event, "name": "thread_name", "args": {"name": name}}


def _microseconds(nanoseconds: pl.Expr) -> pl.Expr:
    """Decimal microseconds, exactly."""
    rest = (nanoseconds % 1000).cast(pl.String).str.zfill(3)
    return pl.concat_str((nanoseconds // 1000).cast(pl.String), pl.lit("."), rest)


def _slices(
    events: pl.DataFrame,
    rows: pl.Series,
    drawn: tracks.Layout,
    chosen: slice,
    numbers: tuple[np.ndarray, np.ndarray],
) -> pl.DataFrame:
    track = drawn.track[chosen]
    kind = events["kind"].cast(pl.String)
    table = events.with_columns(
        kind.alias("kind"),
        rows.alias("row"),
        pl.Series("ts", drawn.start[chosen]),
        pl.Series("length", drawn.end[chosen] - drawn.start[chosen]),
        pl.Series("drawn_pid", numbers[0][track]),
        pl.Series("drawn_tid", numbers[1][track]),
    )
    is_instant = (pl.col("kind") == "instant") & (pl.col("length") == 0)
    category = pl.coalesce(pl.col("category").cast(pl.String), pl.col("kind").replace(CATEGORIES))
    opening = pl.struct(
        pl.when(is_instant).then(pl.lit("i")).otherwise(pl.lit("X")).alias("ph"),
        category.alias("cat"),
        pl.col("name").cast(pl.String),
        pl.col("drawn_pid").alias("pid"),
        pl.col("drawn_tid").alias("tid"),
    ).struct.json_encode()
    length = pl.concat_str(pl.lit(',"dur":'), _microseconds(pl.col("length")))
    members = [
        pl.when(pl.col(name).is_not_null())
        .then(pl.concat_str(pl.lit(f'"{label}":'), _number(name), pl.lit(",")))
        .otherwise(pl.lit(""))
        for name, label in ARGS.items()
        if events[name].null_count() < len(events)
    ]
    return table.select(
        pl.concat_str(
            pl.lit(","),
            opening.str.strip_suffix("}"),
            pl.lit(',"ts":'),
            _microseconds(pl.col("ts")),
            pl.when(is_instant).then(pl.lit(',"s":"t"')).otherwise(length),
            pl.lit(',"args":{'),
            *members,
            pl.lit(ROW),
            pl.col("row"),
            pl.lit("}}"),
        )
    )


def _number(name: str) -> pl.Expr:
    if name not in ("grid", "block"):
        return pl.col(name).cast(pl.String)
    parts = pl.col(name).arr.to_list().cast(pl.List(pl.String)).list.join(",")
    return pl.concat_str(pl.lit("["), parts, pl.lit("]"))


def _flows(
    events: pl.DataFrame, drawn: tracks.Layout, numbers: tuple[np.ndarray, np.ndarray]
) -> Iterator[pl.DataFrame]:
    """Arrows from API calls to what they started, which Kineto calls ac2g."""
    pairs = tracks.launches(events)
    for chunk in pairs.iter_slices(json_rows.CHUNK):
        for side, end in (("call", '"ph":"s"'), ("row", '"ph":"f","bp":"e"')):
            places = chunk[side].to_numpy()
            track = drawn.track[places]
            yield pl.DataFrame(
                {
                    "id": chunk["row"],
                    "pid": numbers[0][track],
                    "tid": numbers[1][track],
                    "ts": drawn.start[places],
                }
            ).select(
                pl.concat_str(
                    pl.lit(f',{{{end},"cat":"ac2g","name":"ac2g","id":'),
                    "id",
                    pl.lit(',"pid":'),
                    "pid",
                    pl.lit(',"tid":'),
                    "tid",
                    pl.lit(',"ts":'),
                    _microseconds(pl.col("ts")),
                    pl.lit("}"),
                )
            )
