"""vLLM's client as a rival, with a stand-in of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assay.bench.rivals import vllm_client
from assay.errors import InputError

NOISY = 'print("WARNING: a kernel library is missing")\n'
SERVE = """
import enum

class TaskType(enum.Enum):
    GENERATION = 1

async def benchmark(base_url, input_requests, max_concurrency):
    tokens = sum(one.expected_output_len for one in input_requests)
    return {"duration": 2.0, "total_output_tokens": tokens}
"""
DATASETS = """
from dataclasses import dataclass

@dataclass
class SampleRequest:
    prompt: str
    prompt_len: int
    expected_output_len: int
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "vllm" / "benchmarks"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text(NOISY)
    (folder / "__init__.py").touch()
    (folder / "serve.py").write_text(SERVE)
    (folder / "datasets.py").write_text(DATASETS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join(one for one in sys.path if one))
    return folder


def test_what_vllm_prints_when_imported_is_not_taken_for_figures(
    package: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert vllm_client.is_installed()
    client = vllm_client.VllmClient()
    found = client.run("http://localhost:1", requests=3, concurrency=2, tokens=5)
    assert found["seconds"] == 2.0
    assert found["tokens"] == 15
    # Asking whether it is installed does not import it.
    assert "vllm" not in sys.modules
    assert capfd.readouterr().out == ""


def test_why_it_ended_is_said(package: Path) -> None:
    (package / "serve.py").write_text("import a_module_that_is_missing\n")
    with pytest.raises(InputError, match="No module named 'a_module_that_is_missing'"):
        vllm_client.VllmClient().run("http://localhost:1", 1, 1, 1)
