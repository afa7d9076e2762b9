"""Import graphs of the Python, Rust and TypeScript sources, file to file, and their cycles.

Python imports count wherever they stand: at the top of a module, inside a function, under
`TYPE_CHECKING`, or in a `LazyModule`. Rust paths count in `use` declarations and in code; a `pub use`
is a re-export, which is followed to the file that defines the name. TypeScript imports count where
they name a file: of values and of types, of styles, re-exports and dynamic ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = dict[str, set[str]]


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one file (Tarjan's algorithm, iterative)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    work.append((successor, iter(sorted(graph.get(successor, ())))))
                    break
                if successor in stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    if len(component := stack[cut:]) > 1:
                        found.append(sorted(component))
                    del stack[cut:]
    return found


def python_graph(source: Path) -> Graph:
    """Edges between the modules below a folder of packages; a stub stands for its extension."""
    files = {_module_name(path, source): path for path in sorted(source.rglob("*.pyi"))}
    files |= {_module_name(path, source): path for path in sorted(source.rglob("*.py"))}
    return {
        name: {
            target
            for imported in _python_imports(ast.parse(path.read_text("utf-8")))
            if (target := _existing(imported, files)) is not None and target != name
        }
        for name, path in files.items()
    }


def _module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _python_imports(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports; `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case ast.Call(
                func=ast.Name(id="LazyModule" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def _existing(imported: str, files: Mapping[str, Path]) -> str | None:
    """The module that an imported name is, or that defines it."""
    if imported in files:
        return imported
    parent = imported.rpartition(".")[0]
    return parent if parent in files else None


MODULE_BLOCK = re.compile(r"^(?:#\[cfg\([^\n]*\)\]\n)?mod \w+ \{$.*?^\}$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
COMMENT_LINES = re.compile(r"^\s*//[^\n]*$|/\*.*?\*/", re.MULTILINE | re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
DEFINITION = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:default |const |async |unsafe |extern \"C\" )*"
    r"(?:fn|struct|enum|union|trait|type|const|static|macro_rules!) (?:mut )?(\w+)",
    re.MULTILINE,
)


class _RustFile:
    """What one Rust file defines, re-exports and refers to."""

    def __init__(self, text: str) -> None:
        code = STRING.sub('""', COMMENT.sub("", MODULE_BLOCK.sub("", text)))
        self.definitions = set(DEFINITION.findall(code))
        self.exported: dict[str, tuple[str, ...]] = {}
        """Names that a `use` brings into the module, with their paths."""
        self.paths: list[tuple[str, ...]] = []
        for public, tree in USE.findall(code):
            for path, name in _leaves(re.sub(r"\s+", " ", tree)):
                self.exported[name] = path
                if not public:
                    self.paths.append(path)
        self.paths += [tuple(path.split("::")) for path in PATH.findall(USE.sub("", code))]


def _leaves(tree: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The paths of a use tree, each with the name that it binds."""
    head, brace, rest = tree.strip().partition("{")
    prefix = tuple(part for part in head.strip().split("::") if part)
    if not brace:
        path, _, alias = head.partition(" as ")
        parts = tuple(path.strip().split("::"))
        yield parts, alias.strip() or parts[-1]
        return
    depth, start = 0, 0
    inner = rest.rpartition("}")[0] + ","
    for at, character in enumerate(inner):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if branch := inner[start:at].strip():
                for path, name in _leaves(branch):
                    whole = prefix if path == ("self",) else prefix + path
                    yield whole, whole[-1] if name == "self" else name
            start = at + 1


def rust_graph(source: Path) -> Graph:
    """Edges between the files of one crate's `src` folder."""
    paths: dict[tuple[str, ...], Path] = {}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        paths[() if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts] = path
    files = {module: _RustFile(path.read_text("utf-8")) for module, path in paths.items()}
    graph: Graph = {str(path.relative_to(source)): set() for path in paths.values()}
    for module, file in files.items():
        for path in file.paths:
            target = _resolve(module, path, files)
            if target is not None and target != module:
                graph[str(paths[module].relative_to(source))].add(
                    str(paths[target].relative_to(source))
                )
    return graph


def _resolve(
    module: tuple[str, ...],
    path: tuple[str, ...],
    files: Mapping[tuple[str, ...], _RustFile],
    depth: int = 0,
) -> tuple[str, ...] | None:
    """The module whose file defines what a path names; None for other crates."""
    here, rest = module, list(path)
    if rest[0] == "crate":
        here, rest = (), rest[1:]
    elif rest[0] in ("super", "self"):
        while rest and rest[0] in ("super", "self"):
            here = here[:-1] if rest.pop(0) == "super" else here
    elif (*here, rest[0]) not in files:
        return None
    while rest and (*here, rest[0]) in files:
        here = (*here, rest.pop(0))
    if here not in files:
        return None
    file = files[here]
    if rest and rest[0] not in file.definitions and rest[0] in file.exported and depth < 8:
        return _resolve(here, (*file.exported[rest[0]], *rest[1:]), files, depth + 1)
    return here


TYPESCRIPT_IMPORT = re.compile(
    r"^(?:import|export)\b[^;]*?from\s*[\"'](\.[^\"']*)[\"']"
    r"|^import\s*[\"'](\.[^\"']*)[\"']"
    r"|\bimport\(\s*[\"'](\.[^\"']*)[\"']",
    re.MULTILINE,
)


def typescript_graph(source: Path) -> Graph:
    """Edges between the files below a folder; packages from elsewhere are left out."""
    files = sorted(path for path in source.rglob("*.ts*") if "node_modules" not in path.parts)
    graph: Graph = {str(path.relative_to(source)): set() for path in files}
    for path in files:
        name = str(path.relative_to(source))
        for groups in TYPESCRIPT_IMPORT.findall(COMMENT_LINES.sub("", path.read_text("utf-8"))):
            imported = (path.parent / "".join(groups)).resolve()
            for place in (
                imported.with_name(f"{imported.name}{end}") for end in ("", ".ts", ".tsx")
            ):
                if place.is_relative_to(source.resolve()):
                    target = str(place.relative_to(source.resolve()))
                    if target in graph and target != name:
                        graph[name].add(target)
    return graph
