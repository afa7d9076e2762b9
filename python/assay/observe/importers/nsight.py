"""Nsight Systems: the SQLite file that `nsys export --type sqlite` writes.

Tables are made only when they have rows, and rows have no order. Names are numbers into StringIds.
Columns of a table that have no place in the event table are in `args`.

See https://docs.nvidia.com/nsight-systems/UserGuide/index.html, SQLite schema reference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.importers import frames
from assay.observe.importers.sqlite_tables import SqliteTables
from assay.observe.trace import Trace

READS: Final = "Nsight Systems (nsys export --type sqlite)"
_TIMES: Final = ("start", "end")
_PLACE: Final = ("deviceId", "streamId", "correlationId", "globalPid", "graphNodeId", "contextId")
_CALL: Final = ("globalTid", "correlationId", "nameId", "returnValue", "eventClass", "callchainId")
TABLES: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "kernel",
        (
            *_TIMES, *_PLACE, "demangledName", "shortName", "mangledName",
            "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
            "staticSharedMemory", "dynamicSharedMemory", "sharedMemoryExecuted", "launchType",
            "localMemoryPerThread", "localMemoryTotal", "gridId", "cacheConfig",
            "sharedMemoryLimitConfig", "clusterX", "clusterY", "clusterZ",
        ),
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "memcpy",
        (
            *_TIMES, *_PLACE, "bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId",
            "srcContextId", "dstDeviceId", "dstContextId", "migrationCause", "copyCount",
        ),
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("memset", (*_TIMES, *_PLACE, "bytes", "value", "memKind")),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "sync", (*_TIMES, *_PLACE, "globalTid", "syncType", "eventId", "eventSyncId"),
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("api", (*_TIMES, *_CALL)),
    "CUPTI_ACTIVITY_KIND_DRIVER": ("api", (*_TIMES, *_CALL)),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("range", (*_TIMES, *_PLACE, "graphId", "graphExecId")),
    "PROFILER_OVERHEAD": ("overhead", (*_TIMES, "globalTid", "correlationId", "nameId",
                                       "returnValue", "overheadType")),
}  # fmt: skip
"""Tables of events, what they are, and the columns that are read; all are numbers."""

COPIES: Final = {
    0: "unknown", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA",
    8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD",
}  # fmt: skip
"""`CUpti_ActivityMemcpyKind`."""
SYNCS: Final = {
    0: "unknown", 1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync",
}  # fmt: skip
"""`CUpti_ActivitySynchronizationType`, in the words of Kineto."""
NVTX_RANGES: Final = {59: "push-pop range", 60: "start-end range", 34: "mark"}
"""Kinds of NVTX events that are events; others name categories and domains."""

_USED: Final = {
    "start", "end", "deviceId", "streamId", "correlationId", "graphNodeId", "bytes", "nameId",
    "graphId",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "demangledName",
}  # fmt: skip
DUPLICATE: Final = "API call with the correlation of another one"
UNKNOWN_NAME: Final = "name that is not among the strings of the file"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether it is a SQLite file."""
    return head.startswith(b"SQLite format 3\0")


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from the SQLite export of Nsight Systems."""
    repairs: Counter[str] = Counter()
    header = TraceHeader(source="nsys")
    with SqliteTables(path) as tables:
        if not any(name in tables.columns for name in (*TABLES, "NVTX_EVENTS")):
            some = ", ".join(sorted(tables.columns)[:3]) or "no tables"
            raise InputError(
                f"{path}: expected an export of Nsight Systems, got an SQLite file with {some}",
                "nsys export --type sqlite writes one",
            )
        strings = _strings(tables, repairs)
        parts = []
        for name in TABLES:
            if progress and name in tables.columns:
                progress(f"reading {name}")
            if (events := _events(tables, name, strings, repairs)) is not None:
                parts.append(events)
        if (events := _annotations(tables, strings, repairs)) is not None:
            parts.append(events)
        _describe(tables, strings, header, repairs)
        if tables.undecodable:
            repairs["text that is not UTF-8, with replacement characters"] += tables.undecodable
    events = schema.complete(pl.concat(parts, how="diagonal_relaxed"))
    events = _on_clock(events, header, str(path))
    calls = events.filter((pl.col("kind") == "api") & (pl.col("correlation") > 0))
    if twice := len(calls) - len(calls.unique(["pid", "correlation"])):
        repairs[DUPLICATE] += twice
    # The file has no order. Longer ones first: a range comes before what it holds.
    events = events.sort(["start_ns", "dur_ns"], descending=[False, True], maintain_order=True)
    header.repairs = dict(repairs)
    _note_gaps(events, header)
    return Trace(header, frames.checked(events, str(path)))


def _strings(tables: SqliteTables, repairs: Counter[str]) -> pl.DataFrame:
    table = tables.read("StringIds", {"id": pl.Int64, "value": pl.String}, repairs)
    if table is None:
        return pl.DataFrame(schema={"id": pl.Int64, "value": pl.String})
    return table.drop_nulls().unique("id", keep="first", maintain_order=True)


def _named(
    events: pl.DataFrame, column: str, strings: pl.DataFrame, label: str = "name"
) -> pl.DataFrame:
    """The events with the string that a column is the number of."""
    return events.join(
        strings.rename({"id": column, "value": label}), on=column, how="left", maintain_order="left"
    )


def _events(
    tables: SqliteTables, table: str, strings: pl.DataFrame, repairs: Counter[str]
) -> pl.DataFrame | None:
    kind, names = TABLES[table]
    raw = tables.read(table, dict.fromkeys(names, pl.Int64), repairs)
    if raw is None:
        return None
    raw = frames.with_durations(raw, repairs)
    if kind == "kernel":
        raw = _kernel_names(raw, strings, repairs)
    elif kind in ("memcpy", "memset", "sync", "range"):
        raw = raw.with_columns(_activity_name(kind))
    else:
        raw = _named(raw, "nameId", strings)
        repairs.update({UNKNOWN_NAME: unknown} if (unknown := raw["name"].null_count()) else {})
        raw = raw.with_columns(pl.col("name").fill_null(pl.lit(kind)))
    category = re.sub("^CUPTI_ACTIVITY_KIND_", "", table).lower()
    return _common(raw, kind).with_columns(pl.lit(category).alias("category"))


def _kernel_names(raw: pl.DataFrame, strings: pl.DataFrame, repairs: Counter[str]) -> pl.DataFrame:
    for column, label in (
        ("demangledName", "name"), ("shortName", "short"), ("mangledName", "mangled"),
    ):  # fmt: skip
        raw = _named(raw, column, strings, label)
    name = pl.coalesce("name", "short", "mangled")
    if unknown := raw.select(name.is_null().sum()).item():
        repairs[UNKNOWN_NAME] += unknown
    return raw.with_columns(name.fill_null(pl.lit("kernel")).alias("name")).drop(
        "shortName", "mangledName"
    )


def _activity_name(kind: str) -> pl.Expr:
    if kind in ("memset", "range"):
        return pl.lit("Memset" if kind == "memset" else "CUDA graph").alias("name")
    if kind == "sync":
        return pl.col("syncType").replace_strict(SYNCS, default="Sync").alias("name")
    direction = pl.col("copyKind").replace_strict(COPIES, default="unknown")
    return pl.concat_str(pl.lit("Memcpy "), direction).alias("name")


def _common(raw: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Columns of the event table, and `args` of the rest."""
    columns = {
        "kind": pl.lit(kind),
        "name": pl.col("name"),
        "start_ns": pl.col("start_ns"),
        "dur_ns": pl.col("dur_ns"),
    }
    for name, source in (
        ("stream", "streamId"), ("bytes", "bytes"), ("graph", "graphId"),
    ):  # fmt: skip
        if source in raw.columns:
            columns[name] = pl.col(source)
    if "deviceId" in raw.columns:
        fits = pl.col("deviceId").is_between(0, 2**31 - 1)
        columns["device"] = pl.when(fits).then("deviceId")
    if "graphNodeId" in raw.columns:
        # Zero stands for a kernel outside graphs.
        columns["node"] = pl.when(pl.col("graphNodeId") != 0).then("graphNodeId")
    if "correlationId" in raw.columns:
        columns["correlation"] = pl.when(pl.col("correlationId") > 0).then("correlationId")
    identity = pl.lit(None, pl.Int64)
    if "globalPid" in raw.columns:
        identity = pl.col("globalPid")
    if "globalTid" in raw.columns:
        identity = pl.coalesce("globalTid", identity)
        columns["tid"] = pl.col("globalTid") & 0xFFFFFF
    # 8 bits of hardware and 8 of virtual machine, then 24 of process and 24 of thread.
    columns["pid"] = (identity // (1 << 24)) & 0xFFFFFF
    for name in ("grid", "block"):
        axes = [f"{name}{axis}" for axis in "XYZ"]
        if axes[0] in raw.columns:
            known = pl.all_horizontal(pl.col(axis).is_between(0, 2**31 - 1) for axis in axes)
            array = pl.concat_list(axes).list.eval(pl.element().clip(0, 2**31 - 1))
            columns[name] = pl.when(known).then(array.cast(pl.List(pl.Int32)).list.to_array(3))
    table = raw.select(expression.alias(name) for name, expression in columns.items())
    rest = [
        name
        for name in raw.columns
        if name not in _USED | {"start_ns", "dur_ns", "name"} and raw[name].null_count() < len(raw)
    ]
    if rest:
        table = table.with_columns(raw.select(pl.struct(rest).struct.json_encode().alias("args")))
    return table


def _annotations(
    tables: SqliteTables, strings: pl.DataFrame, repairs: Counter[str]
) -> pl.DataFrame | None:
    """NVTX ranges and marks; their text is in the row or among the strings."""
    numbers = (
        "start", "end", "eventType", "rangeId", "category", "color", "globalTid", "endGlobalTid",
        "textId", "domainId", "uint64Value", "int64Value", "jsonTextId",
    )  # fmt: skip
    wanted = {**dict.fromkeys(numbers, pl.Int64), "text": pl.String, "jsonText": pl.String}
    raw = tables.read("NVTX_EVENTS", wanted, repairs)
    if raw is None:
        return None
    names = raw.filter(pl.col("eventType") == 75).select("domainId", pl.col("text").alias("domain"))
    raw = raw.filter(pl.col("eventType").is_in(list(NVTX_RANGES)))
    is_mark = pl.col("eventType") == 34
    raw = raw.with_columns(pl.when(is_mark).then("start").otherwise("end").alias("end"))
    raw = frames.with_durations(raw, repairs)
    raw = _named(raw, "textId", strings, "string")
    raw = raw.join(
        names.drop_nulls().unique("domainId"), on="domainId", how="left", maintain_order="left"
    )
    raw = raw.with_columns(pl.coalesce("text", "string", pl.lit("")).alias("name"))
    is_mark_row = raw["eventType"] == 34
    table = _common(raw.drop("text", "string", "textId"), "range")
    return table.with_columns(
        pl.when(is_mark_row).then(pl.lit("instant")).otherwise(pl.lit("range")).alias("kind"),
        pl.lit("nvtx").alias("category"),
    )


def _on_clock(events: pl.DataFrame, header: TraceHeader, where: str) -> pl.DataFrame:
    """Times since the epoch where the file says when its session began."""
    began = header.metadata.get("session_start_utc_ns")
    if not isinstance(began, int) or not len(events):
        return events
    latest = events["start_ns"].max()
    assert isinstance(latest, int)
    if not 0 <= began <= 2**62 or not -(2**62) < latest < 2**62:
        raise InputError(f"{where}: expected times of 64 bits, got a start at {began} + {latest}")
    header.clock = "realtime"
    return events.with_columns(pl.col("start_ns") + began)


def _describe(
    tables: SqliteTables, strings: pl.DataFrame, header: TraceHeader, repairs: Counter[str]
) -> None:
    """Versions, devices, names of processes and threads, and what the profiler complained of."""
    for table in ("META_DATA_CAPTURE", "META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV"):
        pairs = tables.read(table, {"name": pl.String, "value": pl.String}, repairs)
        if pairs is not None and len(pairs):
            header.metadata[table] = {n: v for n, v in pairs.rows() if n is not None}
    exported = header.metadata.get("META_DATA_EXPORT", {})
    captured = header.metadata.get("META_DATA_CAPTURE", {})
    for name, value in {**captured, **exported}.items():
        if re.search("version", name, re.IGNORECASE) and isinstance(value, str):
            header.versions[name] = value
    began = tables.read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": pl.Int64}, repairs)
    if began is not None and len(began) and began["utcEpochNs"][0] is not None:
        header.metadata["session_start_utc_ns"] = began["utcEpochNs"][0]
    _describe_devices(tables, header, repairs)
    wanted: dict[str, Any] = {"globalPid": pl.Int64, "pid": pl.Int64, "name": pl.String}
    processes = tables.read("PROCESSES", wanted, repairs)
    for identity, pid, name in processes.rows() if processes is not None else ():
        number = pid if pid is not None else (identity or 0) >> 24 & 0xFFFFFF
        if name:
            header.processes[str(number)] = name
    threads = tables.read("ThreadNames", {"nameId": pl.Int64, "globalTid": pl.Int64}, repairs)
    if threads is not None:
        for _, identity, name in _named(threads, "nameId", strings).rows():
            if identity is not None and name:
                key = f"{identity >> 24 & 0xFFFFFF}/{identity & 0xFFFFFF}"
                header.processes[key] = name
    wanted = {"severity": pl.Int64, "text": pl.String, "timestamp": pl.Int64}
    diagnostics = tables.read("DIAGNOSTIC_EVENT", wanted, repairs)
    if diagnostics is not None:
        rows = diagnostics.filter(pl.col("text").is_not_null()).rows()
        header.metadata["diagnostics"] = [
            {"severity": severity, "text": text} for severity, text, _ in rows
        ]
        serious = [text for severity, text, _ in rows if (severity or 0) > 1]
        header.degradations += [f"nsys: {text}" for text in dict.fromkeys(serious)]
    if tables.virtual:
        header.degradations.append(f"virtual tables were not read: {', '.join(tables.virtual)}")


def _describe_devices(tables: SqliteTables, header: TraceHeader, repairs: Counter[str]) -> None:
    numbers = (
        "id", "smCount", "clockRate", "totalMemory", "memoryBandwidth", "l2CacheSize",
        "computeMajor", "computeMinor", "cuDevice",
    )  # fmt: skip
    wanted = {**dict.fromkeys(numbers, pl.Int64), "name": pl.String, "busLocation": pl.String,
              "uuid": pl.String, "chipName": pl.String}  # fmt: skip
    devices = tables.read("TARGET_INFO_GPU", wanted, repairs)
    if devices is None:
        return
    header.hardware["devices"] = {
        str(row["cuDevice"] if row["cuDevice"] is not None else row["id"]): {
            name: value for name, value in row.items() if value is not None
        }
        for row in devices.iter_rows(named=True)
    }


def _note_gaps(events: pl.DataFrame, header: TraceHeader) -> None:
    kinds = set(events["kind"])
    if "kernel" not in kinds:
        header.degradations.append("the file has no kernels: trace with --trace=cuda")
    if "graph_trace" in set(events["category"]):
        header.degradations.append(
            "graphs were traced as a whole: --cuda-graph-trace=node has their kernels"
        )
    if "api" not in kinds:
        header.degradations.append("the file has no API calls: launches are not known")
