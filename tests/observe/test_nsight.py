"""Nsight Systems exports: what is read, and what hostile or damaged files give."""

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assay.errors import InputError
from assay.observe.importers.detect import open_trace

PID, TID = 4711, 4712
GLOBAL_TID = (1 << 56) | (PID << 24) | TID
GLOBAL_PID = (1 << 56) | (PID << 24)
SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
  shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER,
  blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, textId INTEGER,
  text TEXT, globalTid INTEGER, domainId INTEGER);
CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, clockRate INTEGER,
  totalMemory INTEGER, cuDevice INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
"""
EPOCH = 1_700_000_000_000_000_000


def database(path: Path, *more: str, rows: dict[str, list[tuple[Any, ...]]] | None = None) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    content = {
        "StringIds": [(1, "void gemm<float>(float*)"), (2, "gemm"), (3, "cudaLaunchKernel_v7000"),
                      (4, "engine"), (5, "step"), (6, "Buffer flush")],
        # Out of order, on two devices, one node of a graph.
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            (900, 950, 1, 1, 7, 12, GLOBAL_PID, 1, 2, 4, 5, 6, 32, 2, 1, 40, 0),
            (500, 600, 0, 1, 7, 11, GLOBAL_PID, 1, 2, 1, 1, 1, 128, 1, 1, 32, 77),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [(300, 400, 0, 7, 10, GLOBAL_PID, 4096, 1)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            (100, 150, 1, GLOBAL_TID, 11, 3, 0), (200, 260, 1, GLOBAL_TID, 12, 3, 0),
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [(960, 990, 0, 7, 13, GLOBAL_PID, 3)],
        "NVTX_EVENTS": [
            (50, 999, 59, 5, None, GLOBAL_TID, 0), (60, None, 34, None, "mark\x1b[2J", GLOBAL_TID, 0),
            (0, None, 75, None, "vllm", GLOBAL_TID, 0),
        ],
        "PROFILER_OVERHEAD": [(10, 20, GLOBAL_TID, 6)],
        "DIAGNOSTIC_EVENT": [(0, 2, "CUDA events were dropped"), (0, 1, "fine")],
        "TARGET_INFO_GPU": [(0, "NVIDIA H200", 132, 1980000000, 150000000000, 0)],
        "PROCESSES": [(GLOBAL_PID, PID, "python")],
        "ThreadNames": [(4, 0, GLOBAL_TID)],
        "META_DATA_EXPORT": [("EXPORT_SCHEMA_VERSION", "3.20.6")],
        "TARGET_INFO_SESSION_START_TIME": [(EPOCH,)],
    }  # fmt: skip
    content.update(rows or {})
    for table, values in content.items():
        if values:
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    for statement in more:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_events_of_every_table(tmp_path: Path) -> None:
    trace = open_trace(database(tmp_path / "report"))
    events = trace.events.with_columns(pl.col("start_ns") - EPOCH)
    assert events.select("kind", "name", "start_ns", "dur_ns").rows() == [
        ("overhead", "Buffer flush", 10, 10),
        ("range", "step", 50, 949),
        ("instant", "mark\x1b[2J", 60, 0),
        ("api", "cudaLaunchKernel_v7000", 100, 50),
        ("api", "cudaLaunchKernel_v7000", 200, 60),
        ("memcpy", "Memcpy HtoD", 300, 100),
        ("kernel", "void gemm<float>(float*)", 500, 100),
        ("kernel", "void gemm<float>(float*)", 900, 50),
        ("sync", "Stream Sync", 960, 30),
    ]
    kernels = events.filter(pl.col("kind") == "kernel").to_dicts()
    assert [(one["device"], one["node"], one["correlation"]) for one in kernels] == [
        (0, 77, 11), (1, None, 12),
    ]  # fmt: skip
    assert (kernels[1]["grid"], kernels[1]["block"]) == ([4, 5, 6], [32, 2, 1])
    assert {(one["pid"], one["stream"]) for one in kernels} == {(PID, 7)}
    assert json.loads(kernels[1]["args"])["registersPerThread"] == 40
    assert set(events.filter(pl.col("kind") == "api").select("pid", "tid").rows()) == {(PID, TID)}
    assert events["bytes"].drop_nulls().to_list() == [4096]
    header = trace.header
    assert (header.source, header.clock) == ("nsys", "realtime")
    assert header.hardware["devices"]["0"]["name"] == "NVIDIA H200"
    assert header.hardware["devices"]["0"]["smCount"] == 132
    assert header.processes == {str(PID): "python", f"{PID}/{TID}": "engine"}
    assert header.versions == {"EXPORT_SCHEMA_VERSION": "3.20.6"}
    assert header.degradations == ["nsys: CUDA events were dropped"]
    assert header.repairs == {}


def test_absent_tables_are_gaps(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "report")
    connection.execute("CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT)")
    connection.execute("INSERT INTO NVTX_EVENTS VALUES (1, 5, 59, 'x')")
    connection.commit()
    connection.close()
    trace = open_trace(tmp_path / "report")
    assert trace.events.select("name", "start_ns", "dur_ns", "pid").rows() == [("x", 1, 4, None)]
    assert trace.header.clock == "unknown"
    assert "the file has no kernels: trace with --trace=cuda" in trace.header.degradations


def test_repairs_are_counted(tmp_path: Path) -> None:
    rows = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            (100, 50, 1, GLOBAL_TID, 11, 3, 0),
            (200, None, 1, GLOBAL_TID, 11, 999, 0),
            ("soon", 300, 1, GLOBAL_TID, 11, 3, 0),
            (2.5, 300, 1, GLOBAL_TID, b"\xff", 3, 0),
            (300, 2**63 - 1, 1, -1, 12, 3, 0),
            (-(2**63), 2**63 - 1, 1, -1, 14, 3, 0),
        ],
        "TARGET_INFO_SESSION_START_TIME": [],
    }
    trace = open_trace(database(tmp_path / "report", rows=rows))
    assert trace.header.repairs == {
        "negative duration set to zero": 2,
        "event without an end closed where it began": 1,
        "event without a start left out": 2,
        "value of another type than its column left out": 3,
        "name that is not among the strings of the file": 1,
        "API call with the correlation of another one": 1,
    }
    calls = trace.events.filter(pl.col("kind") == "api")
    assert calls["dur_ns"].to_list() == [0, 0, 0, 2**63 - 301]


def test_a_hostile_schema_runs_nothing(tmp_path: Path) -> None:
    path = database(
        tmp_path / "report",
        "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY",
        # Endless, if it were read.
        "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS WITH RECURSIVE n(start) AS "
        "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n",
        'CREATE TABLE "a""; DROP TABLE StringIds; --" ("x"" y" INTEGER)',
    )
    before = path.read_bytes()
    trace = open_trace(path)
    assert len(trace.events) == 8
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["report"]


def test_gigantic_strings_are_refused_by_name(tmp_path: Path) -> None:
    path = database(tmp_path / "report", "INSERT INTO StringIds VALUES (99, zeroblob(17000000))")
    with pytest.raises(InputError, match=r"report: expected an SQLite database"):
        open_trace(path)


def test_another_database_is_named(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "music.db")
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="got an SQLite file with songs"):
        open_trace(tmp_path / "music.db")


def test_damage_is_named_or_the_rows_are_right(tmp_path: Path) -> None:
    whole = database(tmp_path / "whole").read_bytes()
    random_bytes = random.Random(7)
    path = tmp_path / "damaged"
    outcomes = set()
    for attempt in range(60):
        damaged = bytearray(whole[: random_bytes.randrange(len(whole))] if attempt % 2 else whole)
        for _ in range(random_bytes.randrange(1, 30)):
            if damaged:
                damaged[random_bytes.randrange(len(damaged))] = random_bytes.randrange(256)
        damaged[:16] = whole[:16]
        path.write_bytes(damaged)
        try:
            trace = open_trace(path)
        except InputError as error:
            outcomes.add("named" if str(path) in error.message else error.message)
        else:
            assert (trace.events["dur_ns"] >= 0).all()
            outcomes.add("read")
    assert outcomes <= {"named", "read"}
    assert "named" in outcomes
