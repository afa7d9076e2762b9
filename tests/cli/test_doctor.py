"""`assay doctor`."""

from pathlib import Path
from typing import Any

import pytest

from assay.runtime import survey


def test_a_sound_machine_is_described(cli: Any) -> None:
    outcome = cli("doctor", "--json")
    assert outcome.code == 0, outcome.out
    data = outcome.data
    assert list(data) == [
        "program", "processor", "devices", "drivers", "libraries", "places", "missing",
        "ceilings",
    ]  # fmt: skip
    assert [device["name"] for device in data["devices"]] == ["cpu", "sim"]
    assert all(device["works"] for device in data["devices"])
    assert {"numpy", "scipy"} <= {library["name"] for library in data["libraries"]}
    assert data["places"][0]["set_by"] == "ASSAY_SCRATCH"
    assert data["processor"]["usable_cores"] >= 1
    assert not any(one["required"] for one in data["missing"])
    text = cli("doctor").out
    assert "cpu     yes" in text
    assert str(data["places"][0]["path"])[:30] in text


def test_a_folder_that_cannot_be_written_is_named_and_ends_with_one(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("ASSAY_SCRATCH", str(blocked / "scratch"))
    outcome = cli("doctor")
    assert outcome.code == 1
    assert "set ASSAY_SCRATCH to a folder of yours" in outcome.out
    assert outcome.err == "error: missing: a scratch folder that can be written\n"


def test_missing_libraries_name_the_extra_that_brings_them(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ['none-such>=2; extra == "symbolic"', "numpy>=1.26", 'ruff; extra == "dev"']
    monkeypatch.setattr(survey.metadata, "requires", lambda _: wanted)
    data = cli("doctor", "--json").data
    assert [(one["name"], one["extra"]) for one in data["libraries"]] == [
        ("none-such", "symbolic"),
        ("numpy", None),
    ]
    assert {
        "what": "none-such",
        "needed_for": "the extra symbolic",
        "how": 'pip install "assay[symbolic]"',
        "required": False,
    } in data["missing"]


def test_a_driver_that_is_not_there_is_no_fault() -> None:
    found = survey.cuda_driver("libnone-such.so.1")
    assert not found.found
    assert found.detail == "libnone-such.so.1 was not found"


def test_a_device_that_computes_wrongly_is_a_fault(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "_try_out", lambda name: f"expected 1, got 2 on {name}")
    outcome = cli("doctor")
    assert outcome.code == 1
    assert "error: missing: device cpu, device sim" in outcome.err


def test_ceilings_are_shown_once_they_are_measured(cli: Any) -> None:
    assert "ceilings  not measured yet: assay bench ceilings" in cli("doctor").out
    assert cli("doctor", "--json").data["ceilings"] == {}
