"""Sinks of other packages, and what a recording imports."""

import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from assay.errors import InputError
from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sinks import opening
from assay.observe.telemetry.sinks.opening import open_sink
from assay.observe.telemetry.sinks.sink import Summary


class Topic:
    """A sink that somebody else wrote."""

    batch_s = 1.0
    batch_samples = 10

    def __init__(self, topic: str = "default") -> None:
        self.name = f"topic:{topic}"

    def open(self, header: RunHeader) -> None:
        pass

    def write(self, samples: Sequence[Sample]) -> None:
        pass

    def close(self, summary: Summary) -> None:
        pass


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("somebody_elses")
    made.Topic = Topic  # type: ignore[attr-defined]
    made.Nothing = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebody_elses", made)


@pytest.mark.usefixtures("module")
def test_a_class_of_a_module_is_a_sink() -> None:
    assert open_sink("somebody_elses:Topic", "r").name == "topic:default"
    assert open_sink("somebody_elses:Topic:gpu:0", "r").name == "topic:gpu:0"
    with pytest.raises(InputError, match="expected name, batch_s, batch_samples, open, write"):
        open_sink("somebody_elses:Nothing", "r")
    with pytest.raises(InputError, match="has no Missing"):
        open_sink("somebody_elses:Missing", "r")


def test_a_package_registers_a_sink_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        @staticmethod
        def load() -> Any:
            return Topic

    def entry_points(*, group: str, name: str) -> list[Any]:
        assert group == "assay.telemetry.sinks"
        return [Entry] if name == "kafka" else []

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    assert open_sink("kafka:gpu", "r").name == "topic:gpu"
    assert open_sink("kafka", "r").name == "topic:default"
    assert opening.ENTRY_POINTS == "assay.telemetry.sinks"


PROGRAM = """
import sys, time
import assay
assert "assay.observe.telemetry" not in sys.modules
with assay.telemetry([f"jsonl:{sys.argv[1]}"], rate=20, endpoints=[]) as state:
    while not state.samples:
        time.sleep(0.02)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_recording_json_lines_imports_neither_polars_nor_pyarrow(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "r.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"polars", "pyarrow", "pandas", "obstore", "google", "prometheus_client", "rich"}
    assert heavy & set(done.stdout.split()) == set()
