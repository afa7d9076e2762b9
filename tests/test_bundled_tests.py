"""The tests in the bundle are collected on a host that has only what the bundle installs."""

import os
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import bundled_tests

HOST = """
import sys
from dataclasses import replace

from assay.runtime import cuda


class Finder:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        absent = name.partition(".")[0] in {absent!r}
        return None if absent else self.finder.find_spec(name, path, target)


sys.meta_path[:] = map(Finder, sys.meta_path)
# Modules of GPU tests import nothing more where there is no GPU.
found = replace(cuda.probe(), missing=None)
cuda.probe = lambda: found
"""
"""A plugin: packages are absent, and a GPU seems to be there."""


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def installed_by_bundle() -> set[str]:
    """Assay, its test runner, and what they require without extras."""
    unread, installed = ["assay", *bundled_tests.PACKAGES], set[str]()
    while unread:
        name = canonical(unread.pop())
        if name not in installed:
            installed.add(name)
            needed = [Requirement(text) for text in requires(name) or ()]
            unread += [
                one.name
                for one in needed
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return installed


@pytest.mark.slow
def test_every_module_is_collected_on_a_host_without_extras(root: Path, tmp_path: Path) -> None:
    bundled_tests.add_tests(root, tmp_path)
    installed = installed_by_bundle()
    absent = {
        module
        for module, distributions in packages_distributions().items()
        if not installed & {canonical(name) for name in distributions}
    }
    folder = tmp_path / "gpu-tests"
    (folder / "scripts" / "host.py").write_text(HOST.format(absent=sorted(absent)))
    script = (tmp_path / "run_gpu_tests.sh").read_text()
    for helper in bundled_tests.HELPERS:
        assert f"$PWD/{helper}" in script, "run_gpu_tests.sh has the folders of helpers on its path"
    path = [*(str(folder / name) for name in bundled_tests.HELPERS), str(root / "python")]
    collected = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder)),
            *("-o", "markers=gpu: needs a GPU", "-q", "-p", "no:cacheprovider", "-p", "host"),
            *("--import-mode=importlib", "--collect-only", "tests"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "ASSAY_TEST_DEVICE": "cuda:0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout[-4000:]
