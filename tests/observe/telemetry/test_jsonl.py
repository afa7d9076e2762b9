"""JSON lines: every line valid, failures not doubled, cut lines ended."""

import json
from pathlib import Path

import pytest
from samples import HEADER, sample, samples

from assay.errors import InputError
from assay.observe.telemetry.sinks.jsonl import JsonLines
from assay.observe.telemetry.sinks.opening import open_sink
from assay.observe.telemetry.sinks.sink import Summary


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_recording_has_header_samples_and_summary(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.jsonl"
    sink = JsonLines(path)
    sink.open(HEADER)
    sink.write(samples(3))
    sink.write([sample(3, gpu_utilization=float("nan"))])
    sink.close(Summary(missed_ticks=2))
    header, *rows, summary = lines(path)
    assert (header["record"], header["run"], header["format"]) == ("header", "run-1", 1)
    assert [row["tick"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["gpu_power_watts"] == 600.5
    assert "phase" not in rows[0]
    assert rows[3]["gpu_utilization"] is None
    assert summary["missed_ticks"] == 2


def test_a_batch_that_failed_half_way_is_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    sink = JsonLines(path)
    sink.open(HEADER)
    sink.write(samples(2))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            sink.write(samples(3, 2))
    sink.write(samples(3, 2))
    sink.close(Summary())
    assert [row["tick"] for row in lines(path) if row["record"] == "sample"] == [0, 1, 2, 3, 4]


def test_a_line_that_a_crash_cut_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"record":"sample","ti')
    sink = JsonLines(path)
    sink.open(HEADER)
    sink.close(Summary())
    cut, header, _ = path.read_text("utf-8").splitlines()
    assert cut == '{"record":"sample","ti'
    assert json.loads(header)["record"] == "header"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jsonl:", "sink jsonl: expected a path"),
        ("carrier-pigeon", 'unknown sink "carrier-pigeon"'),
        ("no.such.module:Sink", "no module no"),
        ("json:loads", "expected name|expected a|missing"),
        ("json:nothing", "module json has no nothing"),
    ],
)
def test_bad_sinks_are_refused(text: str, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        open_sink(text, "run-1")


def test_a_folder_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        JsonLines(tmp_path).open(HEADER)
