"""Files that travel with a job: each process of it reads a checked copy, by name.

Ray unpacks them into a folder, and removes and unpacks that folder again for every node that begins
with the job: nodes of one machine have it in common, so that it may be gone, or half there, under a
driver that has started. Nothing is read there but what is copied; what was expected is known by digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from assay import paths
from assay.errors import InputError

FILES: Final = "ASSAY_JOB_FILES"
"""The variable, in every process of a job, that says which files came with it."""
PATIENCE_S: Final = 60.0
"""How long they are waited for."""
_LOOK_S: Final = 0.1


def described(folder: Path) -> str:
    """The files of a folder by name, each with its digest, as JSON."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return json.dumps({path.name: _digest(path.read_bytes()) for path in files})


def enter_files(patience_s: float = PATIENCE_S) -> None:
    """Go to a folder with the files that came with the job, where any did.

    Raises where they do not arrive, or other ones.
    """
    text = os.environ.get(FILES)
    if not text:
        return
    folder = paths.cache("job-files") / _digest(text.encode())
    if str(folder) in sys.path:
        return
    wanted: Mapping[str, str] = json.loads(text)
    deadline = time.monotonic() + patience_s
    while missing := [name for name in wanted if not _is_here(folder, name, wanted[name])]:
        if time.monotonic() > deadline:
            raise InputError(
                f"files of the job: expected {', '.join(missing)} as submitted, got none such "
                f"within {patience_s:g} s",
                "Ray has not brought them to this node; give the command again",
            )
        time.sleep(_LOOK_S)
    os.chdir(folder)
    # Modules that came with the job are imported from here too.
    sys.path.insert(0, str(folder))


def _is_here(folder: Path, name: str, digest: str) -> bool:
    """Whether the copy has a file, after a look for it where Ray may have put it by now."""
    if _content(folder / name, digest) is not None:
        return True
    for place in sys.path:
        if (content := _content(Path(place) / name, digest)) is not None:
            paths.write_atomically(folder / name, content)
            return True
    return False


def _content(path: Path, digest: str) -> bytes | None:
    """What a file holds; None where it is not there, or not whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if _digest(content) == digest else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
