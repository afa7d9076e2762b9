"""A server is tuned by one run at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from assay import paths
from assay.errors import InputError
from assay.improve.engines.supervised import is_local
from assay.openai_api.address import ServerAddress


@contextmanager
def tuned_alone(url: str) -> Iterator[None]:
    """Hold the server at `url` for this process; refused where another run has it.

    The other would take a trial of this one for the start, and bring it back as such in the end. The
    lock is one of the scratch folder, and ends with the process.
    """
    address = ServerAddress(url, "--engine")
    # All names of this machine are one.
    host = "" if is_local(address) else address.host.replace(":", "_") + "-"
    name = f"{host}{address.place.effective_port}.lock"
    folder = paths.scratch() / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{url}: expected a server that no other run changes, got one that is being tuned",
                "wait for the other run, or end it: ctrl-c brings the server back",
            ) from None
        yield
