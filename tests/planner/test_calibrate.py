"""Calibrations as files, and as values of the graph of equations."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from assay import stack
from assay.catalog import accelerators, constants
from assay.errors import InputError
from assay.planner.calibrate import Calibration, load, read, save, stored
from assay.planner.calibrate.given import MEMORY_SHARES, cpu_values, gpu_values
from assay.planner.calibrate.store import path_of
from assay.planner.specs import Ceiling
from assay.runtime.cuda import Gpu
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import device


def rate(value: float, unit: str = "byte/s", **parameters: Any) -> Ceiling:
    return Ceiling(value, 0.9 * value, 1.1 * value, unit, 9, parameters)


CEILINGS = {
    "read 4 MiB, 2 threads": rate(60e9, operation="read", bytes=4 << 20, threads=2),
    "read 256 MiB, 2 threads": rate(20e9, operation="read", bytes=256 << 20, threads=2),
    "read 256 MiB, 1 thread": rate(15e9, operation="read", bytes=256 << 20, threads=1),
    "launch": rate(5e-6, "s", operation="launch"),
    # 2 us and 10 GB/s: 22 us for 200 kB, 1.002 ms for 10 MB.
    "small": rate(2e5 / 22e-6, operation="linear", dtype="q8_0", rows=1, threads=2, bytes=2e5),
    "large": rate(1e7 / 1002e-6, operation="linear", dtype="q8_0", rows=1, threads=2, bytes=1e7),
    "attention": rate(
        1e6 / 101e-6, operation="decode attention", dtype="bf16", threads=2, bytes=1e6
    ),
    "short attention": rate(
        1e5 / 11e-6, operation="decode attention", dtype="bf16", threads=2, bytes=1e5
    ),
    "prefill": rate(1e11, "FLOP/s", operation="prefill attention", dtype="bf16", threads=2),
    "graph node": rate(3e-7, "s", operation="graph node"),
    "gemm": rate(4e11, "FLOP/s", operation="linear", dtype="bf16", rows=256, threads=2),
    "gemm 8": rate(8e11, "FLOP/s", operation="linear", dtype="q8_0", rows=256, threads=2),
}


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calibration:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    return Calibration(
        device="cpu",
        machine=machine(device("cpu")).to_data(),
        date="2026-01-01T00:00:00+00:00",
        seconds=20.0,
        ceilings=CEILINGS,
        given=cpu_values(1 << 25, CEILINGS).given,
        other_cores=0.0,
        versions={"assay": "0.1.0", "torch": None},
        notes=("a note",),
    )


def test_what_is_saved_is_what_is_read(calibration: Calibration) -> None:
    assert stored("cpu") is None
    path = save(calibration)
    assert path == path_of(calibration.fingerprint)
    # Lists of the file were tuples.
    written = json.loads(json.dumps(calibration.to_data()))
    assert read(path).to_data() == written
    assert stored("cpu") == read(path)


def test_a_calibration_is_found_by_machine_device_fingerprint_and_file(
    calibration: Calibration, tmp_path: Path
) -> None:
    elsewhere = save(calibration, tmp_path / "mine.json")
    with pytest.raises(InputError, match="cpu of this machine is not calibrated"):
        load("cpu")
    path = save(calibration)
    by_name = [load(text) for text in ("here", "cpu", calibration.fingerprint)]
    assert {one.source for one in by_name} == {str(path)}
    assert load(str(elsewhere)).source == str(elsewhere)
    assert by_name[0].given["gpu.memory.bandwidth"] == 20e9
    assert by_name[0].notes == ("a note",)
    assert by_name[0].ceilings == CEILINGS


def test_another_machines_calibration_is_used_with_a_note(calibration: Calibration) -> None:
    other = dataclasses.replace(
        calibration,
        machine={
            "fingerprint": "0" * 16, "processor": "a CPU", "usable_cores": 64, "device": "cpu",
        },
    )  # fmt: skip
    with pytest.raises(InputError, match="no calibration of the machine 0000"):
        load("0" * 16)
    save(other)
    assert load("0" * 16).notes[-1] == "calibrated on another machine: a CPU (a CPU, 64 cores)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "assay.calibration/9"}, "expected format assay.calibration/1"),
        ({"given": {"gpu.memory.bandwidth": "fast"}}, "expected a finite number, got 'fast'"),
        ({"given": {"gpu.memory.bandwidth": float("nan")}}, "expected a finite number"),
        ({"ceilings": {"read": {"value": 1.0}}}, "KeyError: 'lo'"),
        ({"ceilings": [1]}, "AttributeError"),
        ({"machine": {}}, "KeyError: 'fingerprint'"),
    ],
)
def test_other_files_are_refused(
    calibration: Calibration, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**calibration.to_data(), **change}))
    with pytest.raises(InputError, match="is no calibration") as caught:
        load(str(path))
    assert message in caught.value.message


def test_inverted_spread_is_refused(calibration: Calibration, tmp_path: Path) -> None:
    wrong = dataclasses.replace(CEILINGS["launch"], lo=7e-6)
    path = save(dataclasses.replace(calibration, ceilings={"launch": wrong}), tmp_path / "a.json")
    with pytest.raises(InputError, match="expected 0 < lo <= value <= hi"):
        read(path)


def test_values_of_a_cpu() -> None:
    given = cpu_values(1 << 25, CEILINGS).given
    assert given["gpu.memory.bandwidth"] == 20e9
    assert given["gpu.peak_flops"] == 4e11
    assert given["gpu.rate_8bit"] == 2.0
    assert given["gpu.rate_4bit"] == 1.0
    assert given["kernels.passes.cached_share"] == 3.0
    assert given["kernels.gemm.launch_time"] == pytest.approx(2e-6)
    assert given["kernels.gemm.read_share"] == pytest.approx(0.5)
    assert given["kernels.decode.launch_time"] == pytest.approx(1e-6)
    assert given["kernels.decode.rise_share"] == pytest.approx(0.5)
    assert given["kernels.prefill.sustained_share"] == pytest.approx(0.25)
    assert set(given) <= set(stack.registry().variables)


def test_a_gemv_of_the_equations_takes_what_was_measured() -> None:
    """4096 by 1000 weights of one byte at 10 GB/s, and 2 us for the operation."""
    shape = {
        "rows": 1, "columns": 1000, "depth": 4096, "bits": 8, "weight_element": 1,
        "activation_element": 4, "output_element": 4, "weight_footprint": 1e12,
        "activation_footprint": 1, "toggling": 1, "casting": 0,
    }  # fmt: skip
    given = {f"kernels.gemm.{name}": float(value) for name, value in shape.items()}
    values = {**cpu_values(1 << 25, CEILINGS).given, **given}
    found = stack.registry().resolve("kernels.gemm.time", given=values)
    assert not found.missing
    assert found.value == pytest.approx(2e-6 + 4096e3 / 10e9, rel=0.01)


@pytest.mark.parametrize("system", constants.calibrated())
def test_a_gpu_keeps_its_fitted_rates_over_the_measured_floor(system: str) -> None:
    """Kernels take as long as the catalog says; floors follow what was measured."""
    entry = accelerators.find(system)
    registry = stack.registry()
    sheet = registry.resolve("gpu.memory.bandwidth", given=entry.given).value
    assert sheet is not None
    facts = Gpu(entry.title, 90, 1 << 37, 132, 60 << 20, 1 << 17, True)
    measured = {"read": rate(0.95 * sheet, operation="read", bytes=1 << 32)}
    values = gpu_values(facts, measured)
    assert values.accelerator == entry.name
    fitted = constants.given(system)
    known = {**entry.given, **accelerators.low_precision_rates(entry), **fitted}
    known["kernels.device.clock_ratio"] = 1.0
    known |= {name: values.given[name] for name in ("gpu.multiprocessors", "gpu.cache.capacity")}
    shape = {
        "kernels.gemm.rows": 8, "kernels.gemm.columns": 4096, "kernels.gemm.depth": 4096,
        "kernels.gemm.bits": 16, "kernels.gemm.weight_element": 2,
        "kernels.gemm.activation_element": 2, "kernels.gemm.output_element": 2,
        "kernels.gemm.weight_footprint": 1e12, "kernels.gemm.activation_footprint": 1,
        "kernels.gemm.toggling": 1, "kernels.gemm.casting": 0,
        "kernels.passes.moved": 1e8, "kernels.decode.batch": 64, "kernels.decode.context": 4096,
        "kernels.decode.window": 0, "kernels.decode.heads": 32, "kernels.decode.kv_heads": 8,
        "kernels.decode.width": 128, "kernels.decode.value_width": 128,
        "kernels.decode.element": 2, "kernels.decode.kv_element": 2,
        "kernels.decode.footprint": 1e12,
    }  # fmt: skip
    point = {name: float(value) for name, value in shape.items()}
    for target in ("kernels.gemm.time", "kernels.decode.time", "kernels.passes.time"):
        before = registry.resolve(target, given={**known, **point}).value
        after = registry.resolve(target, given={**known, **values.given, **point}).value
        assert before is not None, target
        assert after == pytest.approx(before, rel=1e-9), target
    floor = "kernels.gemm.floor_time"
    before = registry.resolve(floor, given={**known, **point}).value
    after = registry.resolve(floor, given={**known, **values.given, **point}).value
    assert before is not None
    assert after == pytest.approx(before / 0.95)


def test_every_share_of_memory_bandwidth_is_a_variable() -> None:
    assert set(MEMORY_SHARES) <= set(stack.registry().variables)


def test_an_unknown_gpu_is_named() -> None:
    facts = Gpu("Fictional X900", 90, 1 << 37, 100, 60 << 20, 1 << 17, True)
    ceilings = {
        "read": rate(1e12, operation="read", bytes=1 << 32),
        "gemm": rate(4e14, "FLOP/s", operation="linear", dtype="bf16", rows=8192),
        "fp8": rate(6e14, "FLOP/s", operation="matmul", dtype="fp8"),
    }
    values = gpu_values(facts, ceilings)
    assert values.accelerator == ""
    assert values.given["gpu.peak_flops"] == 4e14
    assert (values.given["gpu.rate_8bit"], values.given["gpu.rate_4bit"]) == (1.5, 1.0)
    assert values.given["gpu.memory.bandwidth"] == 1e12
    assert "Fictional X900 is not in the catalog" in values.notes[0]


def test_a_calibrated_h200_predicts_what_the_catalogs_does_over_a_higher_floor(root: Path) -> None:
    """The calibration of a real H200: 4.52 of the data sheet's 4.8 TB/s."""
    import assay.planner as planner

    measured = planner.hardware_spec(root / "bench" / "results" / "calibration-h200.json")
    assert measured.accelerator == "h200_sxm"
    model = planner.model_spec("llama-3-8b")
    batch = planner.BatchConfig(sequences=1, context=128)
    here = planner.predict_graph(model, measured, batch).totals
    catalog = planner.predict_graph(model, planner.hardware_spec("h200"), batch).totals
    assert here["step"].value == pytest.approx(catalog["step"].value, rel=1e-3)
    ratio = 4.8e12 / measured.given["gpu.memory.bandwidth"]
    assert ratio == pytest.approx(4.8 / 4.52, rel=1e-3)
    assert here["floor"].value == pytest.approx(ratio * catalog["floor"].value, rel=1e-3)
