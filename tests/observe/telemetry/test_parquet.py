"""Parquet: durable segments, merging, crashes; and reading, also of JSON lines."""

import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from samples import HEADER, sample, samples

from assay.errors import InputError
from assay.observe.telemetry import reading
from assay.observe.telemetry.fields import FIELDS, IDENTITY
from assay.observe.telemetry.sample import Reading, Sample
from assay.observe.telemetry.sinks import parquet
from assay.observe.telemetry.sinks.jsonl import JsonLines
from assay.observe.telemetry.sinks.parquet import Parquet
from assay.observe.telemetry.sinks.sink import Summary

RICH = Sample(
    5,
    6,
    7,
    "run-1",
    None,
    "f",
    "decode",
    Reading(
        "nvidia",
        "GPU-1",
        0,
        "NVIDIA H200",
        {"gpu_power_watts": 600, "gpu_throttle": 4},
        [{"pid": 9, "name": None, "memory_bytes": 10, "utilization": 0.5}],
        {'a{b="c"}': 1.5},
    ),
)


def record(path: Path, batches: list[list[Sample]], *, close: bool = True) -> Parquet:
    sink = Parquet(path)
    sink.open(HEADER)
    for batch in batches:
        sink.write(batch)
    if close:
        sink.close(Summary(missed_ticks=1))
    return sink


def test_every_segment_is_a_complete_file_before_the_end(tmp_path: Path) -> None:
    record(tmp_path / "r", [samples(3), samples(2, 3)], close=False)
    assert pq.read_table(tmp_path / "r" / "samples-000001-000001.parquet").num_rows == 2
    assert reading.read(tmp_path / "r")["tick"].to_list() == [0, 1, 2, 3, 4]


def test_the_end_merges_segments_into_one_file(tmp_path: Path) -> None:
    record(tmp_path / "r", [samples(3), samples(2, 3), [RICH]])
    (path,) = (tmp_path / "r").glob("*.parquet")
    stored = pq.ParquetFile(path).metadata
    assert stored.row_group(0).column(0).compression == "ZSTD"
    assert json.loads(stored.metadata[b"assay.telemetry"])["run"] == "run-1"
    header = json.loads((tmp_path / "r" / "header.json").read_text())
    assert header["run"] == "run-1"
    assert header["summary"]["missed_ticks"] == 1
    frame = reading.read(tmp_path / "r")
    assert frame.columns == [*IDENTITY, *FIELDS, "processes", "series"]
    last = frame.row(-1, named=True)
    assert (last["phase"], last["workload"], last["gpu_throttle"]) == ("decode", None, 4)
    assert last["gpu_power_watts"] == 600.0
    assert last["processes"] == [{"pid": 9, "name": None, "memory_bytes": 10, "utilization": 0.5}]
    assert last["series"] == [{"key": 'a{b="c"}', "value": 1.5}]


def test_long_recordings_stay_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MERGED", 3)
    record(tmp_path / "r", [[sample(tick)] for tick in range(8)], close=False)
    names = sorted(one.name for one in (tmp_path / "r").glob("*.parquet"))
    assert names == [
        "samples-000000-000002.parquet",
        "samples-000003-000005.parquet",
        "samples-000006-000006.parquet",
        "samples-000007-000007.parquet",
    ]
    assert reading.read(tmp_path / "r")["tick"].to_list() == list(range(8))


def test_a_crash_between_merging_and_removing_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        record(tmp_path / "r", [[sample(tick)] for tick in range(3)])
    assert len(list((tmp_path / "r").glob("samples-*.parquet"))) == 4
    (tmp_path / "r" / ".samples-000009-000009.parquet.part").write_bytes(b"PAR1 half")
    assert reading.read(tmp_path / "r")["tick"].to_list() == [0, 1, 2]


def test_a_failed_write_leaves_nothing_and_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = record(tmp_path / "r", [samples(2)], close=False)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            sink.write(samples(2, 2))
    assert reading.read(tmp_path / "r")["tick"].to_list() == [0, 1]
    sink.write(samples(2, 2))
    sink.close(Summary())
    assert reading.read(tmp_path / "r")["tick"].to_list() == [0, 1, 2, 3]


def test_json_lines_read_as_the_same_frame(tmp_path: Path) -> None:
    record(tmp_path / "r", [samples(3), [RICH]])
    lines = JsonLines(tmp_path / "r.jsonl")
    lines.open(HEADER)
    lines.write([*samples(3), RICH])
    lines.close(Summary())
    with open(tmp_path / "r.jsonl", "a") as file:
        file.write('{"record":"sam')
    assert reading.read(tmp_path / "r.jsonl").equals(reading.read(tmp_path / "r"))


def test_a_recording_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    sink = Parquet.default("run-1")
    sink.open(HEADER)
    sink.write(samples(1))
    sink.close(Summary())
    assert reading.read("run-1").height == 1


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n')
    for name in ("empty", "bad.parquet", "bad.jsonl", "nowhere"):
        with pytest.raises(InputError, match="expected"):
            reading.read(tmp_path / name)
    record(tmp_path / "r", [samples(1)])
    with pytest.raises(InputError, match="holds a recording already"):
        Parquet(tmp_path / "r").open(HEADER)


def test_steps_of_a_trace_get_the_sample_before_their_middle(tmp_path: Path) -> None:
    record(tmp_path / "r", [samples(4)])
    frame = reading.read(tmp_path / "r")
    begin = 1_700_000_000_000_000_000
    second = 1_000_000_000
    steps = pl.DataFrame(
        {
            "step": [0, 1, 2],
            "phase": ["prefill", "decode", "decode"],
            "start_ns": [begin - 2 * second, begin + second // 2, begin + 2 * second - 10],
            "dur_ns": [second, second // 4, 40],
        }
    )
    joined = reading.during(frame, steps)
    assert joined["tick"].to_list() == [None, 0, 2]
    assert joined["phase"].to_list() == ["prefill", "decode", "decode"]
    assert joined["sample_age_ns"].to_list() == [None, 625_000_000, 10]
    assert joined["gpu_power_watts"].to_list() == [None, 600.5, 600.5]
    with pytest.raises(InputError, match="clock: expected realtime or monotonic"):
        reading.during(frame, steps, "unknown")
