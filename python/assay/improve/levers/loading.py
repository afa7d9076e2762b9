"""The library of levers, and files of the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from assay.errors import InputError, unknown_name
from assay.files import read_yaml
from assay.improve.levers.lever import Lever
from assay.improve.levers.schema import levers_of

LIBRARY: Final = Path(__file__).parent / "library"
ANY: Final = "any"
"""Levers of a file with this engine are for every engine that has their knobs."""


def built_in() -> list[Lever]:
    """Every lever of the library, by engine and then in the order of its file."""
    from dataclasses import replace

    levers: list[Lever] = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        levers += [replace(lever, source=f"built-in {path.name}") for lever in read(path)]
    return levers


def read(path: Path) -> list[Lever]:
    """The levers of a file, checked."""
    return levers_of(read_yaml("lever file", path), f"lever file {path}")


def load(engine: str | None = None, files: Iterable[Path] = ()) -> list[Lever]:
    """Levers of an engine (None: of all): the library's, and those of files.

    A lever of a file replaces the library's of the same name and engine; two files may not have
    the same one.
    """
    levers = {(lever.engine, lever.name): lever for lever in built_in()}
    given: dict[tuple[str, str], str] = {}
    for path in files:
        for lever in read(path):
            key = (lever.engine, lever.name)
            if key in given:
                raise InputError(
                    f"{lever.source}: lever {lever.name}: {given[key]} has it already",
                    "rename one of them",
                )
            given[key] = lever.source
            levers[key] = lever
    return [
        lever for lever in levers.values() if engine in (None, lever.engine) or lever.engine == ANY
    ]


def find(levers: Sequence[Lever], name: str) -> list[Lever]:
    """Levers of a name, such as cuda-graphs or vllm/cuda-graphs."""
    chosen = [lever for lever in levers if name in (lever.name, f"{lever.engine}/{lever.name}")]
    if not chosen:
        names = [
            *(lever.name for lever in levers),
            *(f"{lever.engine}/{lever.name}" for lever in levers),
        ]
        raise unknown_name(
            "lever", name, list(dict.fromkeys(names)), "assay levers list shows them"
        )
    return chosen
