"""Everything in the package is reached by a command, a page or the public interface."""

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
    *("assay.engine", "assay.jit", "assay.model", "assay.ops", "assay.runtime"),
    *("assay.xp", "assay.xp.fft", "assay.xp.linalg"),
)


def test_no_definition_is_called_by_tests_only(root: Path) -> None:
    assert unreachable(root / "python", "assay", ENTRIES) == []


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
        ("first", "def planted():\n    return 1\nTABLE = {'planted': 1}\n", None),
        ("second", "def outer():\n    return _own()\ndef _own():\n    return 1\n", None),
        ("second", "@register\ndef route():\n    return 1\n", []),
        ("third", "from pack.second import helper\n", []),
        ("third", "def run():\n    return 1\n", ["pack.third.run"]),
    ],
)
def test_a_planted_definition_is_dead_or_not(
    tmp_path: Path, module: str, code: str, dead: list[str] | None
) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    for name, text in {**SOURCES, module: SOURCES.get(module, "") + code}.items():
        (package / f"{name}.py").write_text(text)
    found = unreachable(tmp_path, "pack", ["pack"])
    assert (found == dead) if dead is not None else found
