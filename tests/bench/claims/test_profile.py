"""`assay bench profile`: calls of a case as a trace that other commands read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.cli.app import run
from assay.observe.trace import Trace


def test_calls_are_a_trace_with_a_step_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nsys").write_text("#!/bin/sh\nexit 1\n")
    (programs / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    out = tmp_path / "trace"
    words = ["bench", "profile", "gemm", "--quick", "--case", "f32 128", "--calls", "3"]
    assert run([*words, "--out", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (case,) = data["cases"]
    assert (case["case"], case["calls"]) == ("matmul f32 128x128x128", 3)
    (operation,) = case["operations"]
    assert operation["count"] == 3
    assert 0.0 < operation["share"] <= case["in_operations"] <= 1.0
    trace = Trace.open(out)
    assert trace.steps["step"].to_list() == [0, 1, 2]
    kernels = trace.events.filter(trace.events["kind"].cast(str) == "kernel")
    assert kernels["flops"].to_list() == [2.0 * 128**3] * 3
    assert data["profilers"] == {
        "Nsight Systems": "not run: it profiles GPUs, and cpu is none",
        "rocprofv3": "not installed: rocprofv3 is not on PATH",
        "rocprof": "not installed: rocprof is not on PATH",
    }
    assert run([*words, "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_function_of_ones_own_is_one_operation(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trace"
    claim = str(root / "examples" / "own_claim")
    assert run(["bench", "profile", claim, "--calls", "2", "--out", str(out), "--json"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    (operation,) = case["operations"]
    assert operation["operation"] == "running_sums.py:in_blocks"
    assert (operation["count"], operation["share"], case["in_operations"]) == (2, 1.0, 1.0)
    trace = Trace.open(out)
    assert any("calls, each with inputs of its own" in note for note in trace.header.degradations)
    # Its bytes are those that the claim counts.
    assert run(["diagnose", str(out), "--json"]) == 0
