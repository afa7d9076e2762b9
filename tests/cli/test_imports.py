"""What a command with warm caches must not import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = ("--preset", "llama3_8b_8_h100_training")
PROBE = """
import sys
from assay.cli.app import run
code = run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def scratch(registry_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scratch")
    shutil.copytree(registry_cache, folder / "cache" / "registry")
    return folder


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (("resolve", "econ.cost.per_token", *SCENARIO), {"scipy", "sympy", "SALib", "rich"}),
        (("explain", "econ.cost.per_token", *SCENARIO), {"scipy", "sympy", "SALib", "rich"}),
        (
            ("resolve", "econ.cost.per_token", *SCENARIO, "--no-interval"),
            {"numpy", "scipy", "sympy", "SALib", "rich"},
        ),
        (
            ("predict", "--model", "llama-3.1-8b", "--gpu", "h200", "--batch", "64"),
            {"numpy", "scipy", "sympy", "SALib", "rich", "polars"},
        ),
    ],
)
def test_a_warm_answer_imports_little(
    scratch: Path, words: tuple[str, ...], unused: set[str]
) -> None:
    environment = {**os.environ, "ASSAY_SCRATCH": str(scratch)}
    command = [sys.executable, "-c", PROBE, *words]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    code, *imported = done.stderr.splitlines()[-1].split()
    assert code == "0"
    assert unused.isdisjoint(imported), unused & set(imported)
