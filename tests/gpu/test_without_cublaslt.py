"""GEMMs without cuBLASLt: the tests of operations again, with our own kernels alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.runtime import cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
WITHOUT = {**os.environ, "ASSAY_CUBLASLT": "0"}


def test_probe_reports_the_switch() -> None:
    output = subprocess.run(
        [sys.executable, "-c", "from assay.runtime import cuda; print(cuda.cublaslt().missing)"],
        env=WITHOUT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert output.stdout == "cuBLASLt not available: switched off by ASSAY_CUBLASLT=0\n"


PROGRAM = """
import numpy as np
from assay import xp
from assay.engine import Engine
a = xp.asarray(np.eye(64, dtype=np.float32), device="cuda:0")
for _ in range(3):
    assert float(xp.sum(a @ a)) == 64.0
with Engine.load("synthetic", "cuda:0") as engine:
    print(*engine.describe()["degradations"])
"""


def run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip


def test_switching_it_off_is_a_degradation_without_warning() -> None:
    completed = run(WITHOUT)
    assert "kernels: cuBLASLt not available: switched off by ASSAY_CUBLASLT=0" in completed.stdout
    assert completed.stderr == ""


def test_missing_library_is_reported_once(tmp_path: Path) -> None:
    compiler = Path(str(cuda.probe().compiler.path))
    # First on the search path: NVRTC alone, and files that are not libraries.
    libraries, shadow = tmp_path / "libraries", tmp_path / "shadow"
    libraries.mkdir()
    (shadow / "nvidia").mkdir(parents=True)
    (shadow / "nvidia" / "__init__.py").touch()
    if compiler.is_absolute():
        for one in compiler.parent.glob("libnvrtc*"):
            (libraries / one.name).symlink_to(one)
    for major in (12, 13):
        (shadow / f"libcublasLt.so.{major}").touch()
    completed = run(
        {
            **{
                name: value
                for name, value in os.environ.items()
                if name not in ("CUDA_PATH", "CUDA_HOME")
            },
            "ASSAY_CUDA_LIBRARIES": str(libraries),
            "LD_LIBRARY_PATH": f"{shadow}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "PYTHONPATH": f"{shadow}:{os.environ.get('PYTHONPATH', '')}",
        }
    )
    (output,) = completed.stderr.splitlines()
    assert output.startswith("cuBLASLt not available: looked for")
    assert output.endswith('slow without it. hint: pip install "assay[gpu]"')


@pytest.mark.parametrize(
    ("file", "chosen"),
    [
        ("test_cuda_operations.py", "test_matmul or test_linear_gives or (test_linear and f32)"),
        ("test_packed_weights.py", "test_fp8_activations or test_linear or test_bias"),
    ],
)
def test_fallback_gemms_pass_the_tests_of_operations(file: str, chosen: str) -> None:
    completed = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", os.devnull, "-q", "-p", "no:cacheprovider",
            "--noconftest", "--import-mode=importlib", "-k", chosen, HERE / file,
        ],
        env=WITHOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout
    assert "passed" in completed.stdout
