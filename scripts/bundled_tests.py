"""Tests in the offline bundle, for a GPU host to run.

`tests/gpu` is GPU-only. Tests of arrays and of the engine run on any device
(tests/chosen_device.py). The contract suite of backends is a Rust test binary of assay-cuda.
"""

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from target_compiler import build_environment, target_compiler

PACKAGES = (
    *("pytest", "iniconfig", "packaging", "pluggy", "pygments"),
    *("hypothesis", "sortedcontainers", "pytest-xdist", "execnet"),
)
"""The test runner with its dependencies."""

FILES = (
    *("tests/conftest.py", "tests/gpu", "tests/runtime", "tests/data", "kernels"),
    *("scripts/sanitize_kernels.py", "scripts/sanitizer_batches.py", "scripts/few_cases.py"),
)
HELPERS = ("tests", "tests/engine", "tests/speech", "scripts")
"""Folders of modules that tests import by name; run_gpu_tests.sh has the same on its path."""

CHOOSE_A_DEVICE = ("from small_models import", "from chosen_device import")
"""Imports that mark a test of the engine as runnable on a GPU."""

CONTRACT_SUITE = "contract-suite"


def engine_tests(root: Path) -> Iterator[str]:
    """Tests of the engine that run on the chosen device; no bundle has what its server requires."""
    for path in sorted((root / "tests" / "engine").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path.parent.name != "server" and any(line in text for line in CHOOSE_A_DEVICE):
            yield str(path.relative_to(root))


def helper_modules(root: Path, paths: Iterable[Path]) -> set[Path]:
    """The modules of `HELPERS` that these files import, and those that they import in turn."""
    helpers: set[Path] = set()
    unread = list(paths)
    while unread:
        tree = ast.parse(unread.pop().read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            candidates = {root / folder / f"{name}.py" for folder in HELPERS for name in names}
            new = {path for path in candidates if path.is_file()} - helpers
            helpers |= new
            unread += new
    return helpers


def test_files(root: Path) -> set[Path]:
    """The tests, and what they import and read."""
    sources = [root / name for name in (*FILES, *engine_tests(root))]
    folders = [path for path in sources if path.is_dir()]
    files = {path for path in sources if path.is_file()}
    files |= {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    files |= {path.parent / "conftest.py" for path in files if path.suffix == ".py"}
    files = {path for path in files if path.is_file() and "__pycache__" not in path.parts}
    return files | helper_modules(root, [path for path in files if path.suffix == ".py"])


def add_tests(root: Path, folder: Path) -> None:
    """Copies the Python tests with what they need, and the scripts that test, measure and tune."""
    for path in test_files(root):
        target = folder / "gpu-tests" / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for script in ("run_gpu_tests.sh", "measure_gpu.sh", "tune_vllm.sh", "record_vllm_grid.py"):
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
    (program,) = (message["executable"] for message in parsed if message.get("executable"))
    return str(program)
