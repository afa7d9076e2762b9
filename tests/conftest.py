"""Fixtures of all tests: the repository's root, a temporary scratch folder, the registry cache."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from assay import paths
from assay.runtime import cuda
from chosen_device import ON_GPU

# No deadline: on a shared machine an example may pause for long.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")

_MACHINE_SCRATCH = paths.scratch()

# The options that somebody has chosen for themselves are not those of the tests.
os.environ["ASSAY_CONFIG"] = ""


OPTIONAL = ("gguf", "jsonschema_rs", "llguidance", "polars", "psutil", "pyarrow")
"""Packages of the dev environment that a GPU host may lack (docs/guides/gpu-host.md)."""


class _Module(pytest.Module):
    """A module of tests, skipped where a package that it imports is optional and missing."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            missing = getattr(error.__cause__, "name", None)
            if missing not in OPTIONAL:
                raise
            pytest.skip(f"{missing} is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect a module; optional packages may be missing."""
    module: pytest.Module = _Module.from_parent(parent, path=module_path)
    return module


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a GPU was chosen, tests of arrays and of the engine need one, as those of `gpu` do."""
    if not ON_GPU:
        return
    missing = cuda.probe().missing
    for item in items:
        if {"engine", "runtime"} & set(item.path.parts):
            item.add_marker("gpu")
            if missing is not None:
                item.add_marker(pytest.mark.skip(reason=missing.sentence))


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def machine_scratch() -> Path:
    """The user's scratch folder, for files too large to download on every run."""
    return _MACHINE_SCRATCH


@pytest.fixture(scope="session")
def registry_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cached registry of the stack: built once for all workers of a run, then read-only."""
    from assay import stack

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "registry"
    with (shared / "registry.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            building = shared / "registry-build"
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ASSAY_SCRATCH", str(building))
                # The memoized function may have loaded the registry during collection.
                stack.registry.__wrapped__()
            (building / "cache" / "registry").rename(folder)
            for file in folder.iterdir():
                file.chmod(0o444)
            folder.chmod(0o555)
    return folder


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, registry_cache: Path) -> Iterator[Path]:
    """A scratch folder for the caches of this process and its children."""
    before = os.environ.get("ASSAY_SCRATCH")
    folder = tmp_path_factory.mktemp("scratch")
    os.environ["ASSAY_SCRATCH"] = str(folder)
    (folder / "cache").mkdir()
    (folder / "cache" / "registry").symlink_to(registry_cache)
    if ON_GPU:
        # Compiled kernels are keyed by their source and options, so other runs may have compiled them.
        shared_cubins = _MACHINE_SCRATCH / "cache" / "cubins"
        shared_cubins.mkdir(parents=True, exist_ok=True)
        (folder / "cache" / "cubins").symlink_to(shared_cubins)
    yield folder
    if before is None:
        del os.environ["ASSAY_SCRATCH"]
    else:
        os.environ["ASSAY_SCRATCH"] = before


@pytest.fixture(scope="session")
def smollm2(machine_scratch: Path, scratch: Path) -> Path:
    """SmolLM2, fetched once for the machine and put where this process looks for it."""
    from assay.engine.loading.pulling import pull
    from assay.engine.loading.sources import pulled_path

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SCRATCH", str(machine_scratch))
        if ON_GPU and not pulled_path("smollm2").exists():
            pytest.skip("hosts of GPUs have no network: put SmolLM2 into the scratch folder first")
        pulled = pull("smollm2").path
    here = pulled_path("smollm2")
    if not here.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(pulled)
    return here


@pytest.fixture
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of runs on a virtual clock: nothing is lost there that a disk would have to hold."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
