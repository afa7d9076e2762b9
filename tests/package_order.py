"""The order of packages that ARCHITECTURE.md states, and the imports that break it.

The block below the heading "Order of packages" has a line for each package, the highest first. A
package imports only from lines below its own; two on one line do not import each other. A line
`engine: server > core` orders the folders inside a package. Modules of `assay` itself, such as
`assay.errors`, are below all packages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(r"^## Order of packages$.*?^```$\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def stated_order(document: str) -> list[list[str]]:
    """Lines of the block, the highest first; a package with folders becomes a line for each."""
    match = _BLOCK.search(document)
    assert match is not None, "expected a block below the heading: Order of packages"
    lines: list[list[str]] = []
    for line in match.group(1).splitlines():
        package, colon, inside = line.partition(":")
        if colon:
            lines += [[f"{package}.{folder.strip()}"] for folder in inside.split(">")]
        else:
            lines.append([name.strip() for name in line.split(",")])
    return lines


def packages_of(source: Path, inside: Collection[str]) -> set[str]:
    """The packages of a folder; of those in `inside` their own packages instead."""
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    nested = {
        f"{name}.{path.parent.name}"
        for name in inside
        for path in (source / name).glob("*/__init__.py")
    }
    return (packages - set(inside)) | nested


def upward_imports(
    graph: Mapping[str, set[str]], order: Sequence[Sequence[str]], entry_points: Collection[str]
) -> list[str]:
    """Imports of a package that is not below; `graph` maps modules to what they import."""
    rank = {name: len(order) - at for at, line in enumerate(order) for name in line}
    found = []
    for module, imports in graph.items():
        for imported in imports:
            if module in entry_points or _package(module, rank) == _package(imported, rank):
                continue
            if _rank(module, rank) <= _rank(imported, rank):
                found.append(f"{module} imports {imported}")
    return sorted(found)


def _package(module: str, rank: Mapping[str, int]) -> str:
    """The longest stated package that a module is in; empty for modules of `assay` itself."""
    words = module.split(".")[1:]
    for length in range(len(words), 0, -1):
        if (name := ".".join(words[:length])) in rank:
            return name
    return ""


def _rank(module: str, rank: Mapping[str, int]) -> int:
    package = _package(module, rank)
    if package:
        return rank[package]
    # A module of a package whose folders are ordered, such as its __init__, is above them.
    top = module.partition(".")[2].partition(".")[0]
    return max((value for name, value in rank.items() if name.startswith(f"{top}.")), default=0)
