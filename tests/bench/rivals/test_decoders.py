"""Rivals of the decode suite: which can be measured, and the reason otherwise."""

import importlib.util
from pathlib import Path

import pytest

from assay.bench.harness.case import Absent
from assay.bench.rivals import decoders
from assay.errors import UnknownNameError


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


def without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    """Let every module be installed but these."""
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else object()
    )


@pytest.mark.parametrize(
    ("name", "absent", "reason"),
    [
        ("llama.cpp", ("llama_cpp",), "llama_cpp not installed"),
        ("transformers", ("torch",), "torch not installed"),
        ("transformers", ("transformers", "torch"), "transformers and torch not installed"),
        ("transformers", ("gguf", "accelerate"), "gguf and accelerate not installed"),
    ],
)
def test_missing_modules_are_the_reason_of_absence(
    monkeypatch: pytest.MonkeyPatch, weights: Path, name: str, absent: tuple[str, ...], reason: str
) -> None:
    without(monkeypatch, *absent)
    assert decoders.rival(name, weights) == Absent(name, reason)


def test_llama_cpp_does_not_read_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch)
    found = decoders.rival("llama.cpp", tmp_path)
    assert found == Absent("llama.cpp", "it reads GGUF files only")


def test_model_without_a_file_has_no_rivals() -> None:
    for name in decoders.RIVALS:
        assert isinstance(decoders.rival(name, None), Absent)


def test_unknown_rival_raises(weights: Path) -> None:
    with pytest.raises(UnknownNameError, match='unknown rival "vllm"'):
        decoders.rival("vllm", weights)
