"""Set-up runs only the steps whose inputs changed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import set_up

PYPROJECT = """
[build-system]
requires = ["maturin"]
[project]
dependencies = ["numpy"]
[project.optional-dependencies]
loop = ["polars"]
telemetry = []
ui = []
export = []
store = []
mcp = []
serve = []
symbolic = []
dev = ["pytest"]
"""

TakenSteps = Callable[..., list[str]]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository whose steps create the same files as the real ones."""
    for name, text in {
        "pyproject.toml": PYPROJECT,
        "Cargo.toml": "",
        "Cargo.lock": "",
        "crates/core/src/lib.rs": "",
        "python/assay/__init__.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(set_up, "ROOT", tmp_path)
    monkeypatch.setattr(set_up, "ENVIRONMENT", tmp_path / ".venv")
    monkeypatch.setattr(set_up, "PYTHON", tmp_path / ".venv/bin/python")
    monkeypatch.setattr(set_up, "STAMP", tmp_path / ".venv/set-up.json")
    monkeypatch.setattr(set_up, "EXTENSION", tmp_path / "python/assay/_native.abi3.so")
    monkeypatch.setattr(set_up, "INJECTED_LIBRARY", tmp_path / "python/assay/libassay_inject.so")
    monkeypatch.setattr("shutil.which", lambda name: name)
    return tmp_path


@pytest.fixture
def taken(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> TakenSteps:
    """Runs set-up and returns the steps that ran."""
    steps: list[str] = []

    def leave(name: str, *paths: Path) -> Callable[[], None]:
        def step() -> None:
            steps.append(name)
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()

        return step

    left = {
        "environment": [set_up.PYTHON],
        "tools": [set_up.PYTHON],
        "packages": [set_up.PYTHON],
        "extension": [set_up.EXTENSION, set_up.INJECTED_LIBRARY],
    }

    def plan(packages: str) -> list[set_up.Step]:
        keys = {"packages": packages}
        return [(keys.get(n, n), n, leave(n, *paths)) for n, paths in left.items()]

    monkeypatch.setattr(set_up, "steps", plan)
    monkeypatch.setattr(
        set_up,
        "start_compiling",
        lambda _: subprocess.Popen([sys.executable, "-c", ""], process_group=0),
    )

    def run(packages: str = "run") -> list[str]:
        steps.clear()
        assert set_up.main([packages]) == 0
        return list(steps)

    return run


def test_second_run_skips_every_step(taken: TakenSteps) -> None:
    assert taken() == ["environment", "tools", "packages", "extension"]
    assert taken() == []


def test_the_larger_set_is_added_to_the_smaller_one(checkout: Path, taken: TakenSteps) -> None:
    taken("run")
    # Kernels of the product are of this CPU alone; those of tests serve the product too.
    assert taken("dev") == ["packages", "extension"]
    assert taken("run") == taken("dev") == []
    (checkout / "pyproject.toml").write_text(PYPROJECT.replace("pytest", "hypothesis"))
    assert taken("run") == ["extension"]
    assert taken("dev") == ["packages", "extension"]


def test_the_product_compiles_kernels_for_this_cpu_alone() -> None:
    assert "--no-default-features" in set_up.building("run")
    assert "--no-default-features" not in set_up.building("dev")


def test_the_set_of_the_product_has_no_test_tools() -> None:
    product = " ".join(set_up.requirements("run"))
    for name in ("playwright", "pytest", "sympy", "SALib", "statsmodels", "moto", "nvidia-cuda"):
        assert name not in product


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [
        ("crates/core/src/lib.rs", "// changed", ["extension"]),
        ("crates/core/src/new.rs", "", ["extension"]),
        ("Cargo.lock", "# changed", ["extension"]),
        ("pyproject.toml", PYPROJECT.replace("numpy", "scipy"), ["packages", "extension"]),
        ("python/assay/__init__.py", "# changed", []),
    ],
)
def test_changed_input_reruns_dependent_steps(
    checkout: Path, taken: TakenSteps, name: str, text: str, steps: list[str]
) -> None:
    taken()
    (checkout / name).write_text(text)
    assert taken() == steps


def test_removed_output_is_rebuilt(taken: TakenSteps) -> None:
    taken()
    set_up.EXTENSION.unlink()
    assert taken() == ["extension"]
    set_up.INJECTED_LIBRARY.unlink()
    assert taken() == ["extension"]
    set_up.PYTHON.unlink()
    assert taken() == ["environment", "tools", "packages", "extension"]


def test_moved_checkout_reruns_every_step(taken: TakenSteps) -> None:
    taken()
    stamp = set_up.STAMP.read_text()
    set_up.STAMP.write_text(stamp.replace(str(set_up.ROOT), "elsewhere"))
    assert taken() == ["environment", "tools", "packages", "extension"]


def test_failed_step_is_rerun(
    taken: TakenSteps, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    working = set_up.steps

    def fail() -> None:
        raise set_up.SetUpError("no disk\nhint: buy one")

    monkeypatch.setattr(
        set_up, "steps", lambda name: [*working(name)[:2], (name, "packages", fail)]
    )
    assert set_up.main(["run"]) == 1
    assert capsys.readouterr().err.endswith("error: no disk\nhint: buy one\n")
    monkeypatch.setattr(set_up, "steps", working)
    assert taken() == ["packages", "extension"]


def test_missing_tool_is_named_before_any_step_runs(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "cargo" else name)
    assert set_up.main([]) == 1
    assert capsys.readouterr().err.startswith("error: cargo is needed")
    assert not set_up.ENVIRONMENT.exists()
