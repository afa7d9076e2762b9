"""The suite `trace`: the generated file is what its counts say, and the check can fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from assay.bench.harness.case import Absent, Settings, Subject
from assay.bench.rivals import trace_analysis
from assay.bench.suites import generated_trace, trace
from assay.runtime.hardware import Device


def test_counts_of_the_generator_are_those_of_the_file(tmp_path: Path) -> None:
    written = generated_trace.write(tmp_path / "one.json", 3000)
    again = generated_trace.write(tmp_path / "two.json", 3000)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert written == again
    events = json.loads((tmp_path / "one.json").read_text())["traceEvents"]
    assert written.events == len(events)
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert written.kernels == len(kernels)
    assert written.kernel_ns == sum(round(event["dur"] * 1000) for event in kernels)
    assert written.nbytes == (tmp_path / "one.json").stat().st_size
    assert 250 < written.nbytes / written.events < 350


def test_a_wrong_sum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_analysis, "has_hta", lambda _: False)
    cases = trace.cases(Settings(Device("cpu"), sizes=((1700,),)))
    assert [case.unit for case in cases] == ["s", "MB", "s", "MB"]
    prepared = cases[0].prepare()
    (rival,) = prepared.rivals
    assert isinstance(rival, Absent)
    assert prepared.check.error(0) == 0.0
    assert isinstance(prepared.own, Subject)
    done = trace_analysis.Analysis(1.0, 1.0, {"kernels": 1, "device_ns": 1})
    monkeypatch.setattr(trace_analysis, "summarize", lambda path: done)
    assert prepared.check.error(0) > 0.9


def test_a_failing_process_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="expected a trace, got nothing of that name"):
        trace_analysis.summarize(tmp_path / "none.json")
    written = generated_trace.write(tmp_path / "one.json", 100)
    done = trace_analysis.store(tmp_path / "one.json", tmp_path / "stored")
    assert done.data["kinds"]["kernel"] == {"count": written.kernels, "ns": written.kernel_ns}
    assert done.resident_bytes > 1e6


def test_a_process_that_logs_much_ends() -> None:
    """More than a pipe holds, before it prints what is read of it."""
    logs = "import sys; sys.stderr.write('x' * (1 << 20)); {}"
    done = logs.format('print("{}")')
    assert trace_analysis.run([sys.executable, "-c", done]).data == {}
    with pytest.raises(RuntimeError, match="ended with 3: xxx"):
        trace_analysis.run([sys.executable, "-c", logs.format("sys.exit(3)")])


def test_a_rival_of_another_environment_sees_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("VIRTUAL_ENV", "/ours")
    other = tmp_path / "python"
    other.write_text(
        "#!/bin/sh\n"
        """printf '{"seconds": 1.5, "ours": "%s%s", "flag": "%s"}' "$PYTHONPATH" "$VIRTUAL_ENV" "$1"\n"""
    )
    other.chmod(0o755)
    there = trace_analysis.analyze_with_hta(tmp_path / "trace.json", other)
    assert there.data == {"seconds": 1.5, "ours": "", "flag": "-P"}
    assert there.seconds == 1.5
