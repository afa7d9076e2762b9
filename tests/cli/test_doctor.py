"""`assay doctor`."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from assay.runtime import cuda, survey


def test_working_machine_is_described(cli: Any) -> None:
    outcome = cli("doctor", "--json")
    assert outcome.code == 0, outcome.out
    data = outcome.data
    assert list(data) == [
        "program", "processor", "devices", "drivers", "libraries", "places", "missing",
        "ceilings",
    ]  # fmt: skip
    assert [device["name"] for device in data["devices"]] == ["cpu", "sim", *cuda.names()]
    assert all(device["works"] for device in data["devices"])
    assert {"numpy", "scipy"} <= {library["name"] for library in data["libraries"]}
    assert data["places"][0]["set_by"] == "ASSAY_SCRATCH"
    assert data["processor"]["usable_cores"] >= 1
    kernels = data["processor"]["kernels"]
    assert kernels.split("+")[0] in {"portable", "avx2", "avx512", "neon"}
    # The operating system may disable CPU features; it cannot add any.
    assert "+amx" not in kernels or "amx_bf16" in data["processor"]["features"]
    assert not any(one["required"] for one in data["missing"])
    text = cli("doctor").out
    assert "cpu     yes" in text
    assert str(data["places"][0]["path"])[:30] in text


def test_kernels_of_one_cpu_are_named(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "kernel_levels", lambda: ["portable", "avx2", "avx512"])
    assert "alone" not in cli("doctor", "--json").data["program"]["build"]
    monkeypatch.setattr(survey, "kernel_levels", lambda: ["avx512"])
    assert cli("doctor", "--json").data["program"]["build"].endswith("kernels for this CPU alone")


def test_unwritable_folder_is_named_and_exits_with_1(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("ASSAY_SCRATCH", str(blocked / "scratch"))
    outcome = cli("doctor")
    assert outcome.code == 1
    assert "set ASSAY_SCRATCH to a folder of yours" in outcome.out
    assert outcome.err == "error: missing: a scratch folder that can be written\n"


def test_missing_libraries_name_the_extra_to_install(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = ['none-such>=2; extra == "symbolic"', "numpy>=1.26", 'ruff; extra == "dev"']
    monkeypatch.setattr(survey.metadata, "requires", lambda _: requirements)
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


def test_a_source_tree_that_is_not_installed_is_named(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> list[str]:
        raise survey.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(survey.metadata, "requires", absent)
    outcome = cli("doctor", "--json")
    assert outcome.code == 1
    assert [one["what"] for one in outcome.data["missing"] if one["required"]] == ["assay"]


NOTHING = cuda.Findings(
    driver=cuda.Library(None, None, "CUDA driver not detected", "install it"),
    compiler=cuda.Library(None, None, "NVRTC JIT compiler not available", "install that"),
    gpus=(),
    missing=cuda.CudaUnavailable("no_driver", "CUDA driver not detected", "install it"),
)


def test_missing_cuda_is_reported_and_exits_with_0(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "probe", lambda: NOTHING)
    absent = cuda.Library(None, None, "cuBLASLt not available", "install this")
    monkeypatch.setattr(cuda, "cublaslt", lambda: absent)
    outcome = cli("doctor", "--json")
    assert outcome.code == 0
    drivers = [(one["name"], one["found"], one["detail"]) for one in outcome.data["drivers"]]
    assert drivers == [
        ("CUDA", False, "CUDA driver not detected"),
        ("NVRTC", False, "NVRTC JIT compiler not available"),
        ("cuBLASLt", False, "cuBLASLt not available"),
    ]
    missing = [(one["what"], one["required"]) for one in outcome.data["missing"]]
    assert missing[:2] == [
        ("CUDA driver not detected", False),
        ("NVRTC JIT compiler not available", False),
    ]


def test_driver_without_gpu_is_reported(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "No GPU devices found (cuDeviceGetCount == 0)"
    found = dataclasses.replace(
        NOTHING,
        driver=cuda.Library("libcuda.so.1", (13, 0), None, None),
        missing=cuda.CudaUnavailable("no_devices", sentence, "look"),
    )
    monkeypatch.setattr(cuda, "probe", lambda: found)
    outcome = cli("doctor")
    assert outcome.code == 0
    assert sentence in outcome.out


def test_device_with_wrong_results_exits_with_1(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "_smoke_test", lambda name: f"expected 1, got 2 on {name}")
    outcome = cli("doctor")
    assert outcome.code == 1
    assert "error: missing: device cpu, device sim" in outcome.err


def test_unsupported_gpu_is_reported_and_exits_with_0(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an old one beside one that can be used."""
    monkeypatch.setattr(cuda, "names", lambda: ("cuda:7",))
    outcome = cli("doctor", "--json")
    assert outcome.code == 0
    (refused,) = (one for one in outcome.data["devices"] if one["name"] == "cuda:7")
    assert not refused["works"]
    (missing,) = (one for one in outcome.data["missing"] if one["what"] == "device cuda:7")
    assert missing["how"] == f"{refused['problem']}: {refused['hint']}"
    assert not missing["required"]


def test_ceilings_are_shown_once_they_are_measured(cli: Any) -> None:
    assert "ceilings  not measured yet: assay calibrate" in cli("doctor").out
    assert cli("doctor", "--json").data["ceilings"] == {}
