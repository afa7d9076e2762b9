"""The package: its imports, build information, wheel and entry point."""

import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import assay

IMPORTED_BY_ASSAY = """
import sys
before = set(sys.modules)
import assay
print(*(set(sys.modules) - before))
"""


def run(*command: str, cwd: Path | None = None) -> str:
    finished = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_import_loads_only_the_standard_library_and_the_extension() -> None:
    imported = run(sys.executable, "-c", IMPORTED_BY_ASSAY).split()
    assert {"assay", "assay._native"} <= set(imported)
    foreign = {
        name
        for name in imported
        if name not in {"assay", "assay._native"}
        and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


def test_versions_agree(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]
    assert {
        project["version"],
        workspace["package"]["version"],
        importlib.metadata.version("assay"),
        assay.build_info()["version"],
    } == {assay.__version__}


def test_build_info_names_this_machine() -> None:
    info = assay.build_info()
    assert info["arch"] == {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    assert info["os"] == {"darwin": "macos"}.get(sys.platform, sys.platform)


def test_stub_agrees_with_the_extension(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside an empty package the stub is all that mypy reads; the whole package takes half a minute.
    package = tmp_path / "assay"
    package.mkdir()
    (package / "__init__.pyi").touch()
    shutil.copy(root / "python" / "assay" / "_native.pyi", package)
    monkeypatch.setenv("MYPYPATH", str(tmp_path))
    run(sys.executable, "-m", "mypy.stubtest", "assay._native")


def test_module_is_the_command() -> None:
    command = Path(sys.executable).with_name("assay")
    by_module = run(sys.executable, "-m", "assay", "--help").replace("python -m assay", "assay")
    assert "Usage: assay " in by_module
    assert by_module.split() == run(str(command), "--help").split()


@pytest.mark.slow
def test_wheel_carries_the_whole_package(root: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "maturin", "build", "--quiet", "--out", str(tmp_path), cwd=root)
    (wheel,) = tmp_path.glob("*.whl")
    carried = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("assay/")}
    tracked = run("git", "ls-files", "python/assay", cwd=root).split()
    files = {name.removeprefix("python/") for name in tracked}
    assert "assay/py.typed" in files
    assert files - carried == set()
    # Git ignores what is built: the extension, and the library for traced programs.
    assert {"assay/_native.abi3.so", "assay/libassay_inject.so"} <= carried


def test_a_first_token_needs_no_numpy(smollm2: Path) -> None:
    """It takes longer to import than all else that a short answer needs."""
    program = (
        "import sys\n"
        "from assay.cli.app import run\n"
        "words = ['--prompt', 'Gravity', '--max-tokens', '1', '--greedy']\n"
        "assert run(['generate', sys.argv[1], *words]) == 0\n"
        "print(sorted({'numpy', 'asyncio', 'jinja2', 'sympy'} & set(sys.modules)))\n"
    )
    assert run(sys.executable, "-c", program, str(smollm2)).splitlines()[-1] == "[]"


def test_requirements_are_small(root: Path) -> None:
    """What is installed with Assay brings no data frames and no plotting library."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[; ]", one)[0].lower() for one in project["dependencies"]}
    assert names == {"numpy", "scipy", "typer", "rich", "jinja2", "tokenizers"}
    imported = set()
    for path in (root / "python" / "assay").rglob("*.py"):
        if not {"bench", "rivals"} & set(path.parts):
            imported |= set(
                re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
            )
    assert imported & {"SALib", "pandas", "matplotlib"} == set()
