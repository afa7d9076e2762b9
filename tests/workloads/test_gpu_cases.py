"""What workloads measure on a GPU: their cases, verified here as far as a CPU can."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import numpy as np
import pytest

from assay.bench.harness.case import Settings
from assay.bench.harness.program_check import ProgramCheck
from assay.bench.suites.registry import suite
from assay.cli.app import run
from assay.runtime import cuda, device
from assay.runtime.graphs import Graph
from assay.runtime.hardware import Device
from assay.workloads.contract import Missing, start_of
from assay.workloads.protein import reference, trimul_rivals
from assay.workloads.protein.trimul import PUBLISHED_US, SHAPES, Shape, TriMul, geometric_means
from assay.workloads.registry import workload

SMALL = TriMul(Shape(40, 2, 32, True, "cauchy"), hidden=16)


def fake_gpu() -> Device:
    capabilities = SimpleNamespace(is_gpu=True, supports_jit=True)
    return cast(Device, SimpleNamespace(name="cuda:0", capabilities=capabilities))


@pytest.mark.parametrize("name", ["order-book", "protein", "perception"])
@pytest.mark.skipif(cuda.probe().missing is None, reason="there is a GPU")
def test_without_a_gpu_it_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["bench", name, "--device", "cuda:0", "--quick"])
    problems = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert (code, len(problems)) == (2, 1)


def test_every_public_shape_is_a_case() -> None:
    every = suite("protein")
    names = [case.name for case in every.cases(Settings(device=fake_gpu()))]
    assert len(set(names)) == len(SHAPES) == 7
    assert names[2] == "TriMul, 256 residues, batch 2, 384 channels, normal, masked"
    assert every.devices == ("cpu", "cuda")
    assert every.rivals == ("PyTorch", "torch.compile", "cuEquivariance")
    assert len(every.cases(Settings(device=fake_gpu(), quick=True))) == 1


def test_order_books_of_many_instruments_are_cases() -> None:
    every = suite("order-book")
    names = [case.name for case in every.cases(Settings(device=fake_gpu()))]
    assert names[0] == "order-book, 400,000 events, 132 instruments"
    assert every.devices == ("cpu", "cuda")
    # As many orders rest, whatever the number of instruments.
    for one in workload("order-book").gpu_cases:
        data = one.generate(3, 2_000)
        assert (len(data.arrays["kind"]), data.units) == (2_000, 2_000)


def test_on_a_gpu_pillars_are_made_by_the_same_operations() -> None:
    chosen = start_of(workload("perception"), fake_gpu(), "default")
    assert (chosen["grouping"], chosen["features"]) == ("counted", "fused")
    assert "cuda" in suite("perception").devices


def test_an_update_is_verified_at_some_pairs_and_timed_by_its_device() -> None:
    cpu = device("cpu")
    data = SMALL.generate(1, 2)
    assert np.array_equal(data.arrays["pairs"], SMALL.generate(1, 2).arrays["pairs"])
    program = SMALL.prepare(data, cpu, {})
    check = ProgramCheck(SMALL, program, data.units)
    assert check.error(0) < 1e-5
    assert check.complaints == []
    assert cast(float, program.own_seconds()) > 0.0
    program.load(data)
    program.run()
    outputs = {"update": program.outputs()["update"].copy()}
    assert SMALL.verify(outputs, data).error < 1e-5
    wrong = {"update": outputs["update"] * 1.1}
    assert SMALL.verify(wrong, data).error > 3e-2
    outputs["update"][1, 39, 0, 3] = np.nan
    assert np.isnan(SMALL.verify(outputs, data).error)
    for rival in SMALL.rivals:
        assert isinstance(rival.prepare(data, cpu), Missing) or cuda.probe().missing is None


def test_updates_that_loading_made_are_no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that computes nothing leaves what the run before its capture wrote."""
    data, other = (SMALL.generate(seed, 2) for seed in (1, 2))
    program = SMALL.prepare(data, device("cpu"), {})
    program.run()
    program.load(other)
    # Those of the data that were run, until they are overwritten.
    assert SMALL.verify(program.outputs(), data).error < 1e-5
    program.poison()
    assert np.isnan(program.outputs()["update"]).all()
    monkeypatch.setattr(Graph, "replay", lambda *_: None)
    program.run()
    assert np.isnan(program.outputs()["update"]).all()
    check = ProgramCheck(SMALL, program, data.units)
    assert np.isnan(check.error(0))
    assert check.complaints == ["outputs were not all written"]


def test_a_rival_that_cannot_be_captured_is_not_timed_launch_by_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = MagicMock()
    torch.cuda.graph.side_effect = RuntimeError("operation not permitted\nwhen capturing")
    monkeypatch.setattr(trimul_rivals, "_torch", lambda _: torch)
    monkeypatch.setattr(trimul_rivals, "triangle_tensors", MagicMock())
    monkeypatch.setattr(trimul_rivals, "triangle", MagicMock())
    rival = next(rival for rival in SMALL.rivals if rival.name == "PyTorch")
    prepared = rival.prepare(SMALL.generate(1, 2), device("cpu"))
    assert prepared == Missing("cannot be captured as a graph, as ours is: operation not permitted")


def test_some_pairs_are_those_of_the_whole_update() -> None:
    data = SMALL.generate(2, 2)
    z, mask = (data.arrays[name][1].astype(np.float64) for name in ("pairs", "mask"))
    whole = reference.triangle(z, SMALL.weights, incoming=False, mask=mask)
    rows, columns = np.array([0, 7, 39]), np.array([3, 8])
    some = reference.triangle_at(z, SMALL.weights, rows, columns, mask)
    np.testing.assert_allclose(some, whole[np.ix_(rows, columns)], rtol=1e-9, atol=1e-12)


def test_geometric_means_stand_beside_those_that_were_published() -> None:
    def figure(value: float) -> Any:
        rivals = [SimpleNamespace(name="PyTorch", median=4 * value)]
        return SimpleNamespace(value=value, rivals=rivals, unit="us")

    figures = [figure(10.0 if place % 2 else 1000.0) for place in range(6)] + [figure(100.0)]
    said = geometric_means(figures)
    assert "assay 100 us, PyTorch 400 us" in said
    assert all(f"{value:,.0f} us" in said for value in PUBLISHED_US.values())
    assert geometric_means(figures[:2]) == "geometric mean: 2 of 7 shapes were measured"
