"""Tests in the offline bundle, for a GPU host to run.

`tests/gpu` is GPU-only. Tests of arrays and of the engine run on any device
(tests/chosen_device.py). The contract suite of backends is a Rust test binary of assay-cuda.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from target_compiler import build_environment, target_compiler

PACKAGES = (
    *("pytest", "iniconfig", "packaging", "pluggy", "pygments"),
    *("hypothesis", "sortedcontainers", "pytest-xdist", "execnet"),
)
"""The test runner with its dependencies."""

FILES = (
    *(
        "tests/conftest.py",
        "tests/chosen_device.py",
        "tests/ggml_blocks.py",
        "tests/gpu",
        "tests/runtime",
    ),
    *("tests/engine/small_models.py", "tests/data/engine", "tests/data/llama_cpp_smollm2.json"),
    *("kernels", "scripts/kernel_harness.py", "scripts/kernel_packing.py"),
    *("scripts/sanitize_kernels.py", "scripts/sanitizer_batches.py", "scripts/few_cases.py"),
)
CHOOSE_A_DEVICE = ("from small_models import", "from chosen_device import")
"""Imports that mark a test of the engine as runnable on a GPU."""

CONTRACT_SUITE = "contract-suite"


def engine_tests(root: Path) -> Iterator[str]:
    """Tests of the engine that run on the chosen device."""
    for path in sorted((root / "tests" / "engine").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if any(line in text for line in CHOOSE_A_DEVICE):
            yield str(path.relative_to(root))


def add_tests(root: Path, folder: Path) -> None:
    """Copies the Python tests with their imports, and the test and measurement scripts."""
    for name in (*FILES, *engine_tests(root)):
        source, target = root / name, folder / "gpu-tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for script in ("run_gpu_tests.sh", "measure_gpu.sh"):
        shutil.copy(root / "scripts" / script, folder)


def add_contract_suite(root: Path, folder: Path) -> None:
    """Builds the contract suite with the wheel's compiler, and copies it to the tests."""
    compiler = target_compiler()
    # The interpreter argument applies to wheels only.
    target = compiler.arguments if compiler.arguments[0] == "--target" else ()
    built = subprocess.run(
        [
            *("cargo", "test", "--release", "--no-run", "--message-format=json"),
            *("--package", "assay-cuda", "--test", "device", *target),
        ],
        cwd=root,
        env=build_environment(compiler),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    path = folder / "gpu-tests" / CONTRACT_SUITE
    shutil.copy(_executable(built.stdout), path)
    os.chmod(path, 0o755)


def _executable(messages: str) -> str:
    """The test binary in cargo's messages."""
    parsed = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    (program,) = (one["executable"] for one in parsed if one.get("executable"))
    return str(program)
