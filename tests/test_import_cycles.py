"""No import cycles between files, in Python, Rust or TypeScript."""

from pathlib import Path

import pytest

from import_graph import cycles, python_graph, rust_graph, typescript_graph


def test_python_modules_have_no_import_cycle(root: Path) -> None:
    graph = python_graph(root / "python")
    assert len(graph) > 300
    assert cycles(graph) == []


def test_rust_files_have_no_import_cycle(root: Path) -> None:
    graphs = {source.parent.name: rust_graph(source) for source in root.glob("crates/*/src")}
    assert sum(len(edges) for graph in graphs.values() for edges in graph.values()) > 500
    assert {name: found for name, graph in graphs.items() if (found := cycles(graph))} == {}


def test_typescript_files_have_no_import_cycle(root: Path) -> None:
    graph = typescript_graph(root / "web")
    assert sum(map(len, graph.values())) > 200
    assert cycles(graph) == []


@pytest.mark.parametrize(
    ("second", "is_cycle"),
    [
        ("import pack.first", True),
        ("def f():\n    from pack.first import g", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack import first", True),
        ('first = LazyModule("pack.first", globals(), "first")', True),
        ("import os", False),
    ],
)
def test_every_kind_of_python_import_counts(tmp_path: Path, second: str, is_cycle: bool) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "first.py").write_text("from pack import second\n")
    (package / "second.py").write_text(second + "\n")
    assert cycles(python_graph(tmp_path)) == ([["pack.first", "pack.second"]] if is_cycle else [])


@pytest.mark.parametrize(
    ("second", "is_cycle"),
    [
        ("use super::first::One;", True),
        ("use super::{first::{One, Other}, third};", True),
        ("use crate::One;", True),
        ("fn f() -> crate::first::One { todo }", True),
        ("use super::Own;", False),
        ("// use super::first::One;", False),
        ("mod tests {\n    use super::super::first::One;\n}", False),
    ],
)
def test_every_kind_of_rust_path_counts(tmp_path: Path, second: str, is_cycle: bool) -> None:
    (tmp_path / "lib.rs").write_text(
        "mod first;\nmod second;\npub use first::One;\npub struct Own;\n"
    )
    (tmp_path / "first.rs").write_text("use super::second::Two;\npub struct One(Two);\n")
    (tmp_path / "second.rs").write_text(f"{second}\npub struct Two;\n")
    assert cycles(rust_graph(tmp_path)) == ([["first.rs", "second.rs"]] if is_cycle else [])


@pytest.mark.parametrize(
    ("second", "is_cycle"),
    [
        ('import { one } from "./first";', True),
        ('import type { One } from "../app/first";', True),
        ('import {\n  one,\n  type Two,\n} from "./first";', True),
        ('export { one } from "./first";', True),
        ('const lazy = () => import("./first");', True),
        ('import "./first";', True),
        ('import { first } from "first";', False),
        ('// import { one } from "./first";', False),
    ],
)
def test_every_kind_of_typescript_import_counts(
    tmp_path: Path, second: str, is_cycle: bool
) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "first.tsx").write_text('import { two } from "./second";\n')
    (folder / "second.ts").write_text(f"{second}\n")
    assert cycles(typescript_graph(tmp_path)) == (
        [["app/first.tsx", "app/second.ts"]] if is_cycle else []
    )
