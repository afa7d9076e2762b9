"""Products where there is no cuBLASLt: the tests of operations again, by kernels of ours alone."""

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


def test_doctor_says_that_it_is_switched_off() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from assay.runtime import cuda; print(cuda.products().missing)"],
        env=WITHOUT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "cuBLASLt not available: switched off by ASSAY_CUBLASLT=0\n"


@pytest.mark.parametrize(
    ("file", "chosen"),
    [
        ("test_cuda_operations.py", "test_matmul or test_linear_gives or (test_linear and f32)"),
        ("test_packed_weights.py", "test_both_sides or test_linear or test_bias"),
    ],
)
def test_products_are_right(file: str, chosen: str) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", os.devnull, "-q", "-p", "no:cacheprovider",
            "--noconftest", "--import-mode=importlib", "-k", chosen, HERE / file,
        ],
        env=WITHOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
