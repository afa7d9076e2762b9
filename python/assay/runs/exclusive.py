"""A server is tuned by one run at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from assay import paths
from assay.errors import InputError
from assay.openai_api.address import ServerAddress


@contextmanager
def tuned_alone(url: str) -> Iterator[None]:
    """Hold the server at `url` for this process; refused where another run has it.

    The other would take a trial of this one for the start, and bring it back as such in the end. The
    lock is one of the scratch folder, and ends with the process.
    """
    port = ServerAddress(url, "--engine").place.effective_port
    folder = paths.scratch() / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{port}.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{url}: expected a server that no other run changes, got one that is being tuned",
                "wait for the other run, or end it: ctrl-c brings the server back",
            ) from None
        yield
