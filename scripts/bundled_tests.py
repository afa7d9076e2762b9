"""The tests that the offline bundle carries, for a GPU host to run.

Those of `tests/gpu` are about GPUs alone. Those of arrays and of the engine run on any device
(tests/chosen_device.py). The contract of backends is a program: Rust's tests of assay-cuda.
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
"""What runs the tests, with all that it needs."""

FILES = (
    *("tests/conftest.py", "tests/chosen_device.py", "tests/gpu", "tests/runtime"),
    *("tests/engine/small_models.py", "tests/data/engine", "tests/data/llama_cpp_smollm2.json"),
    *("kernels", "scripts/kernel_harness.py", "scripts/kernel_packing.py"),
    *("scripts/sanitize_kernels.py", "scripts/few_cases.py"),
)
CHOOSE_A_DEVICE = ("from small_models import", "from chosen_device import")
"""A test of the engine that has one of these runs on a GPU too."""

CONTRACT_SUITE = "contract-suite"


def engine_tests(root: Path) -> Iterator[str]:
    """The tests of the engine that run on the device that is chosen."""
    for path in sorted((root / "tests" / "engine").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if any(line in text for line in CHOOSE_A_DEVICE):
            yield str(path.relative_to(root))


def add_tests(root: Path, folder: Path) -> None:
    """Puts the tests in Python with what they import, and the scripts that test and measure."""
    for name in (*FILES, *engine_tests(root)):
        source, place = root / name, folder / "gpu-tests" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)
    for script in ("run_gpu_tests.sh", "measure_gpu.sh"):
        shutil.copy(root / "scripts" / script, folder)


def add_contract_suite(root: Path, folder: Path) -> None:
    """Builds the contract suite as the wheel is built, and puts it beside the other tests."""
    compiler = target_compiler()
    # The interpreter that a wheel is made with is of no concern here.
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
    place = folder / "gpu-tests" / CONTRACT_SUITE
    shutil.copy(_executable(built.stdout), place)
    os.chmod(place, 0o755)


def _executable(messages: str) -> str:
    """The test program that cargo says it made."""
    made = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    (program,) = (one["executable"] for one in made if one.get("executable"))
    return str(program)
