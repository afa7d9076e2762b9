"""Everything in the package is reached by a command, a page or the public interface."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reachability import unreachable

ENTRIES = (
    "assay",
    # The modules of commands, which the command line imports by their names.
    "assay.cli.*",
    # The extension raises them.
    "assay.errors.*",
    # Each declares equations, which the registry collects.
    "assay.stack.*",
    *("assay.engine", "assay.jit", "assay.model", "assay.ops", "assay.ops.audio", "assay.runtime"),
    # What `registry.graph` offers.
    "assay.model.graphs.dependency_graph.*",
    *("assay.xp", "assay.xp.fft", "assay.xp.linalg", "assay.xp.random", "assay.xp.inspection.*"),
)
_IMPORT = re.compile(r"^from (assay[\w.]*) import ([\w, ]+)$", re.MULTILINE)
_CALL = re.compile(r"\w\.(\w+)\(")
_NAME = re.compile(r"\bassay(?:\.\w+)+")


def documented(root: Path) -> Iterator[str]:
    """Names that documents and examples tell users to use."""
    for text in _documents(root):
        yield from _NAME.findall(text)
        for module, names in _IMPORT.findall(text):
            yield from (f"{module}.{name.strip()}" for name in names.split(","))


def documented_methods(root: Path) -> set[str]:
    """Methods that Python code in documents and examples calls."""
    return {name for text in _documents(root) for name in _CALL.findall(text)}


def _documents(root: Path) -> Iterator[str]:
    """The Python code of documents, and names in their prose."""
    for path in (*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/*.py")):
        yield path.read_text("utf-8")


def test_no_definition_is_called_by_tests_only(root: Path) -> None:
    entries = [*ENTRIES, *sorted(set(documented(root)))]
    assert unreachable(root / "python", "assay", entries, documented_methods(root)) == []


SOURCES = {
    "__init__": '__all__ = ["run"]\nfrom pack.first import run\n',
    "first": (
        "from pack import second\nfrom pack.second import Used, Aliased\n"
        "def run(value: 'Aliased | None'):\n    return Used().live() + second.helper()\n"
    ),
    "second": (
        "import json\nAliased = int\n"
        "class Used(json.JSONEncoder):\n"
        "    def default(self):\n        pass\n"
        "class Used:\n"
        "    def __init__(self):\n        self._inner()\n"
        "    def _inner(self):\n        pass\n"
        "    def live(self):\n        return LIMIT\n"
        "def helper():\n    return 1\n"
        "LIMIT = 3\n"
    ),
}


@pytest.mark.parametrize(
    ("module", "code", "dead"),
    [
        ("second", "", []),
        ("second", "def planted():\n    return planted()\n", ["pack.second.planted"]),
        ("second", "PLANTED = 4\n", ["pack.second.PLANTED"]),
        ("second", "class Planted:\n    def run(self):\n        pass\n", ["pack.second.Planted"]),
        (
            "first",
            "def planted():\n    return 1\nTABLE = {'planted': 1}\n",
            ["pack.first.TABLE", "pack.first.planted"],
        ),
        (
            "second",
            "def outer():\n    return _own()\ndef _own():\n    return 1\n",
            ["pack.second._own", "pack.second.outer"],
        ),
        ("second", "@register\ndef route():\n    return 1\n", []),
        ("third", "from pack.second import helper\n", []),
        ("third", "def run():\n    return 1\n", ["pack.third.run"]),
    ],
)
def test_a_planted_definition_is_dead_or_not(
    tmp_path: Path, module: str, code: str, dead: list[str]
) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    for name, text in {**SOURCES, module: SOURCES.get(module, "") + code}.items():
        (package / f"{name}.py").write_text(text)
    assert unreachable(tmp_path, "pack", ["pack"]) == dead
