"""The source distribution holds what its build needs, and a wheel built from it works."""

import importlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "maturin", "sdist", "--out", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    [archive] = folder.glob("assay-*.tar.gz")
    return archive


def tracked(root: Path, *folders: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=root, check=True, capture_output=True, text=True
    )
    return set(listed.stdout.split())


def test_sdist_holds_what_its_build_reads(root: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    # build.rs of assay-cuda embeds every CUDA source, and cargo reads every crate of the workspace,
    # which that of the pages is no part of.
    crates = {
        name
        for name in tracked(root, "crates")
        if name.endswith((".rs", "Cargo.toml"))
        and "/benches/" not in name
        and not name.startswith("crates/assay-tape-wasm/")
    }
    kernels = {name for name in tracked(root, "kernels") if name.endswith((".cu", ".cuh"))}
    assert len(kernels) > 30
    # The formatter's settings of the equations are for this repository.
    package = tracked(root, "python/assay") - {"python/assay/stack/ruff.toml"}
    others = {"Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE"}
    # The build backend, which builds the library for traced programs before the wheel.
    others |= {"scripts/build_backend.py", "scripts/inject_library.py"}
    # What the pages of an installed Assay show as its documentation.
    others |= {"scripts/wheel_documents.py"}
    others |= {name for name in tracked(root, "docs") if name.endswith(".md")}
    assert sorted((crates | kernels | package | others) - names) == []
    # Nothing that was built here, and nothing of the tests' data.
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []
    assert sdist.stat().st_size < 6_000_000


def test_injected_library_shares_its_dependencies_with_the_extension(root: Path) -> None:
    """A crate with other features would be built twice, which takes minutes."""

    def crates(*package: str) -> set[str]:
        command = ["cargo", "tree", "--offline", "--edges", "normal,build", "--prefix", "none"]
        command += ["--format", "{p} {f}", "--package", *package]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        return {line.removesuffix(" (*)") for line in listed.stdout.splitlines()}

    extension = crates("assay-python", "--features", "extension-module")
    apart = {line.split()[0] for line in crates("assay-inject") - extension}
    assert apart == {"assay-inject"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, "release"),
        ("", "release"),
        ("--locked", "release"),
        ("--locked --profile dev", "dev"),
        ("--profile=quick --locked", "quick"),
    ],
)
def test_backend_builds_both_libraries_with_one_profile(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: str | None, expected: str
) -> None:
    """`pip install .` sets no options: the backend once failed on that."""
    monkeypatch.delenv("MATURIN_PEP517_ARGS", raising=False)
    if words is not None:
        monkeypatch.setenv("MATURIN_PEP517_ARGS", words)
    monkeypatch.syspath_prepend(str(root / "scripts"))
    build_backend = importlib.import_module("build_backend")
    assert build_backend.profile() == expected


@pytest.mark.slow
def test_wheel_built_from_the_sdist_explains(root: Path, sdist: Path, tmp_path: Path) -> None:
    uv = [sys.executable, "-m", "uv"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "CARGO_TARGET_DIR", "ASSAY_SCRATCH")
    }
    # An optimized build takes three times as long and proves no more.
    environment |= {
        "MATURIN_PEP517_ARGS": "--profile dev",
        "CARGO_TARGET_DIR": str(tmp_path / "target"),
        "ASSAY_SCRATCH": str(tmp_path / "scratch"),
    }

    def run(*words: str) -> str:
        finished = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert finished.returncode == 0, finished.stderr[-2000:]
        return finished.stdout

    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()
    run(*uv, "build", "--wheel", "--out-dir", str(tmp_path), str(source))
    [wheel] = tmp_path.glob("assay-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert "assay/libassay_inject.so" in names
    documents = {name for name in tracked(root, "docs") if name.endswith(".md")}
    assert {f"assay/ui/documents/{name.removeprefix('docs/')}" for name in documents} <= names
    run(*uv, "venv", "--python", sys.executable, str(tmp_path / "empty"))
    python = str(tmp_path / "empty" / "bin" / "python")
    run(*uv, "pip", "install", "--python", python, str(wheel))
    words = ("explain", "econ.cost.per_token", "--preset", "dense_training_cost_fixture")
    text = run(str(tmp_path / "empty" / "bin" / "assay"), *words)
    assert text == (root / "tests" / "cli" / "provenance.txt").read_text()
