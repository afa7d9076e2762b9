"""`assay calibrate`, over a few of its ceilings."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.bench.calibration import ceilings, linear, run
from assay.bench.calibration.sampling import BASE_UNITS, Measurement
from assay.errors import UnsupportedError
from assay.planner.calibrate import load, read
from assay.runtime.hardware import Device


def few(device: Device) -> Iterator[Measurement]:
    """Real measurements of each kind, on little memory."""
    yield ceilings.bandwidth("read", device, 1 << 20, 1)
    yield ceilings.bandwidth("copy", device, 1 << 20, 1)
    listed = linear.measurements(device, (1,), ceilings.limited)
    yield from (one for one in listed if "q8_0 1x512" in one.name or "q8_0 64x" in one.name)


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    monkeypatch.setattr(run, "measurements", few)
    return tmp_path


def test_measured_ceilings_are_stored_and_shown(cli: Any, scratch: Path) -> None:
    outcome = cli("calibrate", "--json")
    assert outcome.code == 0
    assert outcome.data["format"] == "assay.calibration/1"
    path = Path(outcome.data["path"])
    assert path.is_relative_to(scratch)
    assert list(path.parent.iterdir()) == [path]
    measured = outcome.data["ceilings"]
    assert list(measured) == [
        "read 1 MiB, 1 thread",
        "copy 1 MiB, 1 thread",
        "linear q8_0 64x2048x2048, 1 thread",
        "linear q8_0 1x512x512, 1 thread",
    ]
    for one in measured.values():
        assert 0 < one["lo"] <= one["value"] <= one["hi"]
        assert one["repeats"] > 2
    gemv = measured["linear q8_0 1x512x512, 1 thread"]
    # 34 bytes for 32 weights, and single-precision activations and outputs.
    assert gemv["parameters"]["bytes"] == 512 * 512 // 32 * 34 + 2 * 512 * 4
    assert gemv["parameters"]["flops"] == 2 * 512 * 512
    assert load("cpu").given["gpu.memory.bandwidth"] == measured["read 1 MiB, 1 thread"]["value"]
    shown = cli("doctor").out
    assert "not measured yet" not in shown
    assert outcome.data["date"] in shown
    path.write_text("{}")
    broken = cli("doctor")
    assert broken.code == 0
    assert "not measured yet" in broken.out
    assert f"{path} is no calibration" in broken.err


def test_text_has_a_line_for_each_ceiling(cli: Any, scratch: Path) -> None:
    file = scratch / "mine.json"
    outcome = cli("calibrate", "--out", str(file))
    assert outcome.code == 0
    assert f"stored  {file}" in outcome.out
    lines = [line for line in outcome.out.splitlines() if "thread" in line]
    assert [line.split("  ")[0] for line in lines] == list(read(file).ceilings)
    assert not (scratch / "cache" / "calibration").exists()


def test_wrong_answers_and_gaps_are_named(cli: Any, scratch: Path, monkeypatch: Any) -> None:
    def broken(device: Device) -> Iterator[Measurement]:
        first, second, *rest = few(device)

        def wrong() -> Any:
            prepared = first.prepare()
            check = dataclasses.replace(prepared.check, error=lambda _: float("nan"))
            return dataclasses.replace(prepared, check=check)

        def absent() -> Any:
            raise UnsupportedError("no such format here")

        yield dataclasses.replace(first, name="bad", prepare=wrong)
        yield dataclasses.replace(second, name="gap", prepare=absent)
        yield from (first, *rest)

    monkeypatch.setattr(run, "measurements", broken)
    outcome = cli("calibrate", "--json")
    assert outcome.code == 1
    assert "wrong results, left out: bad" in outcome.err
    assert outcome.data["failed"] == ["bad"]
    assert not {"bad", "gap"} & set(outcome.data["ceilings"])
    assert "not measured: gap: no such format here" in outcome.data["notes"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--device", "sim"), "a simulated device has no ceilings"),
        (("--device", "tpu"), "tpu"),
        (("--out", "/nowhere/at/all.json"), "cannot write /nowhere/at/all.json"),
    ],
)
def test_bad_options_are_refused(cli: Any, words: tuple[str, ...], message: str) -> None:
    outcome = cli("calibrate", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("is_gpu", [False, True])
def test_every_ceiling_has_a_name_of_its_own(is_gpu: bool) -> None:
    """Nothing is prepared, so that the list of a GPU needs none."""
    device: Any = Device("cpu")
    if is_gpu:
        device = SimpleNamespace(name="cuda:0", capabilities=SimpleNamespace(is_gpu=True))
    listed = list(ceilings.measurements(device))
    names = [one.name for one in listed]
    assert len(set(names)) == len(names) > 20
    assert {one.unit for one in listed} <= set(BASE_UNITS)
    operations = {one.parameters["operation"] for one in listed}
    assert operations >= {"read", "copy", "linear", "launch", "graph node", "decode attention"}
    assert ("pinned to device" in operations) == is_gpu
