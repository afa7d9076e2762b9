"""Packages import only from packages below them, in the order that ARCHITECTURE.md states."""

from pathlib import Path

import pytest

from import_graph import python_graph
from package_order import packages_of, stated_order, upward_imports

ENTRY_POINTS = {"assay", "assay.__main__"}
"""`import assay` and `python -m assay` name what is above them."""


@pytest.fixture(scope="module")
def order(root: Path) -> list[list[str]]:
    return stated_order((root / "ARCHITECTURE.md").read_text("utf-8"))


def test_every_package_is_in_the_stated_order(root: Path, order: list[list[str]]) -> None:
    stated = [name for line in order for name in line]
    assert len(stated) == len(set(stated))
    assert set(stated) == packages_of(root / "python" / "assay", inside={"engine"})


def test_imports_point_downward(root: Path, order: list[list[str]]) -> None:
    graph = python_graph(root / "python")
    assert len(graph) > 300
    assert upward_imports(graph, order, ENTRY_POINTS) == []


ORDER = "text\n\n## Order of packages\n\n```\ntop\nleft, right\nengine: upper > lower\nbase\n```\n"


@pytest.mark.parametrize(
    ("module", "imported", "is_upward"),
    [
        ("assay.top.a", "assay.base.b", False),
        ("assay.base.b", "assay.top.a", True),
        ("assay.left.a", "assay.right.b", True),
        ("assay.left.a", "assay.left.b", False),
        ("assay.errors", "assay.base.b", True),
        ("assay.base.b", "assay.errors", False),
        ("assay.engine.upper.a", "assay.engine.lower.b", False),
        ("assay.engine.lower.b", "assay.engine.upper.a", True),
        ("assay.engine.lower.b", "assay.top.a", True),
        ("assay.engine.upper.a", "assay.base.b", False),
        ("assay.__main__", "assay.top.a", False),
    ],
)
def test_a_planted_import_is_upward_or_not(module: str, imported: str, is_upward: bool) -> None:
    graph = {module: {imported}, imported: set[str]()}
    found = upward_imports(graph, stated_order(ORDER), ENTRY_POINTS)
    assert found == ([f"{module} imports {imported}"] if is_upward else [])
