"""Ceilings stored for the planner."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from assay.bench.harness.stored_ceilings import ceilings, path_for, store
from assay.runtime.hardware import device
from assay.runtime.survey import processor

Make = Callable[..., Any]


@pytest.fixture
def measured(make_figure: Make, make_result: Make, monkeypatch: Any, tmp_path: Any) -> Any:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))

    def figure(name: str, value: float, unit: str, **parameters: Any) -> Any:
        made = make_figure([value] * 7, name=name, unit=unit)
        return dataclasses.replace(made, parameters=parameters)

    return make_result(
        figure("read 1", 90.0, "GB/s", operation="read", bytes=1 << 20),
        figure("read 2", 20.0, "GB/s", operation="read", bytes=1 << 29),
        figure("copy 1", 15.0, "GB/s", operation="copy", bytes=1 << 29),
        figure("arithmetic", 200.0, "GFLOP/s", operation="arithmetic"),
        figure("matmul f32", 180.0, "GFLOP/s", operation="matmul", dtype="f32"),
        figure("launch", 2.0, "us", operation="launch"),
        figure("graph node", 0.5, "us", operation="graph node"),
        suite="ceilings",
    )


def test_stored_ceilings_are_read_in_base_units(measured: Any) -> None:
    cpu = device("cpu")
    assert ceilings(cpu) is None
    assert store(measured, cpu).startswith("stored for the planner in ")
    found = ceilings(cpu)
    assert found is not None
    assert found.read == {1 << 20: 90e9, 1 << 29: 20e9}
    assert (found.memory_read, found.memory_copy) == (20e9, 15e9)
    assert (found.arithmetic, found.matmul) == (200e9, {"f32": 180e9})
    assert found.launch == pytest.approx(2e-6)
    assert found.graph_node == pytest.approx(0.5e-6)
    assert ceilings(device("sim")) is None


def test_quick_wrong_and_partial_results_are_not_stored(measured: Any, make_figure: Make) -> None:
    cpu = device("cpu")
    quick = dataclasses.replace(measured, quick=True)
    wrong = dataclasses.replace(
        measured, figures=(*measured.figures, make_figure([1.0] * 7, name="bad", error=1.0))
    )
    partial = dataclasses.replace(measured, figures=measured.figures[:2])
    assert store(quick, cpu) == "not stored: a quick run is a look, not a claim"
    assert store(wrong, cpu) == "not stored: wrong answers of bad"
    assert store(partial, cpu) == "not stored: the result has no figure of copy"
    assert ceilings(cpu) is None


def test_other_machine_has_its_own_file(measured: Any, monkeypatch: Any) -> None:
    from assay.runtime import fingerprint

    cpu = device("cpu")
    store(measured, cpu)
    here = path_for(cpu)
    monkeypatch.setattr(fingerprint, "processor", lambda: {**processor(), "name": "another"})
    assert path_for(cpu) != here
    assert ceilings(cpu) is None


def test_doctor_shows_stored_ceilings(measured: Any, capsys: Any) -> None:
    from assay.cli.app import run

    store(measured, device("cpu"))
    capsys.readouterr()
    assert run(["doctor"]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if "20.0 GB/s" in one)
    assert line.split()[:9] == (
        ["cpu", "20.0", "GB/s", "15.0", "GB/s", "180.0", "GFLOP/s", "2.0", "us"]
    )
