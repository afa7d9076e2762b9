"""Which ceilings a run predicts with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assay.errors import InputError
from assay.improve.engines.protocol import EngineDescription
from assay.improve.loop.phases import predict
from assay.improve.loop.state import RunState


def run_of(device: str, hardware: dict[str, Any], capabilities: set[str]) -> Any:
    degradations: list[str] = []
    description = EngineDescription(
        engine="vllm",
        release="0.24.0",
        model="llama",
        device=device,
        hardware=hardware,
        capabilities=frozenset(capabilities),
    )
    return SimpleNamespace(
        description=description, degradations=degradations, degrade=degradations.append, notes=[]
    )


@pytest.fixture(autouse=True)
def no_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))


def test_a_gpu_without_calibration_has_the_ceilings_of_the_catalog() -> None:
    state = run_of("cuda:0", {"device_description": "NVIDIA H200"}, {"cuda"})
    found = predict._hardware(cast("RunState", state), None)
    assert found is not None
    assert found.source == "catalog"
    assert any("predicted with the catalog's" in one for one in state.degradations)


def test_a_gpu_that_the_catalog_lacks_has_no_floor_and_says_so() -> None:
    state = run_of("cuda:0", {"device_description": "NVIDIA Imaginary 1"}, {"cuda"})
    assert predict._hardware(cast("RunState", state), None) is None
    (said,) = state.degradations
    assert said.startswith("no floor: ")
    assert "assay calibrate --device cuda:0" in said


def calibrated_formats(
    state: Any, monkeypatch: pytest.MonkeyPatch, model: str | None
) -> list[set[str]]:
    """What a run of the own engine on a CPU that was never calibrated has measured."""
    asked: list[set[str]] = []
    state.folder = SimpleNamespace(path=Path("nowhere"), trace=Path("nowhere"))
    state.model, state.plan, state.progress = model, {}, SimpleNamespace(say=lambda text: None)
    state.begin = lambda phase: None
    monkeypatch.setattr(predict, "_write_plan", lambda state: None)

    def calibrate(device: str, formats: Any, path: Path, say: Any) -> None:
        asked.append(set(formats))
        raise InputError("no figures in this test")

    predict.predict(cast("RunState", state), calibrate)
    return asked


def test_a_machine_is_calibrated_for_a_model_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    state = run_of("cpu", {}, {"cpu"})
    state.description = replace(state.description, engine="assay")
    assert calibrated_formats(state, monkeypatch, "llama-3.1-8b") == [{"q8_0", "bf16"}]
    # A server says neither which files it serves nor in which format.
    assert calibrated_formats(state, monkeypatch, None) == []
    assert not any("None" in text for text in state.notes)
