"""One file over HTTP: redirects followed, resumed where it was cut off, verified as it is written."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from assay import http_client
from assay.engine.loading.pull_folder import Progress, PullError
from assay.errors import InputError
from assay.http_client import HttpResponse

_CHUNK: Final = 1 << 20
_REDIRECTS: Final = 5
_TIMEOUT_S: Final = 60.0
_MOVED: Final = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a server says of a file before it is downloaded; None where it does not."""

    nbytes: int | None = None
    sha256: str | None = None
    git_blob: str | None = None
    """The hash that Git gives a small file."""


@contextmanager
def opened(
    url: str, headers: Mapping[str, str], *, token: str | None = None
) -> Iterator[HttpResponse]:
    """The answer to a GET; the token goes to the first server only, not where it redirects to."""
    first = origin = http_client.read_address(url, _no_url(url)).origin
    for _ in range(_REDIRECTS + 1):
        address = http_client.read_address(url, _no_url(url))
        if first.startswith("https:") and address.scheme != "https":
            raise PullError(f"{first}: expected redirects to HTTPS, got one to {address.origin}")
        origin = address.origin
        sent = dict(headers)
        if token and origin == first:
            sent["Authorization"] = f"Bearer {token}"
        try:
            with http_client.answered(
                address, "GET", address.target, headers=sent, timeout_s=_TIMEOUT_S
            ) as answer:
                if answer.status not in _MOVED:
                    yield answer
                    return
                url = urljoin(url, answer.headers.get("Location", ""))
        except http_client.FAILURES as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            raise PullError(
                f"{origin}: expected an answer, got: {error}",
                "what has arrived is kept, and the same command continues; HF_ENDPOINT names another hub",
            ) from None
    raise PullError(f"{origin}: expected at most {_REDIRECTS} redirects, got more")


def download(
    url: str, target: Path, expected: Expected, progress: Progress, *, token: str | None = None
) -> tuple[str, int]:
    """Write a file; returns its SHA-256 and size. An unfinished one is kept as `.part`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    begun = part.stat().st_size if part.is_file() else 0
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    with opened(url, headers, token=token) as answer:
        if begun and answer.status != 206:
            begun = 0
        if not http_client.is_success(answer):
            raise status_error(url, answer.status)
        length = answer.headers.get("Content-Length")
        total = expected.nbytes
        if total is None and length is not None and length.isdigit():
            total = begun + int(length)
        with part.open("ab" if begun else "wb") as out:
            _copy(answer, out.write, begun, total, progress, target.name)
            out.flush()
            os.fsync(out.fileno())
    nbytes = part.stat().st_size
    if total is not None and nbytes < total:
        raise PullError(
            f"{url}: expected {total:,} bytes, got {nbytes:,}",
            "what has arrived is kept: the same command continues",
        )
    sha256 = _verified(part, url, expected, total)
    os.replace(part, target)
    return sha256, nbytes


def _copy(
    answer: HttpResponse,
    write: Callable[[bytes], object],
    begun: int,
    total: int | None,
    progress: Progress,
    name: str,
) -> None:
    written = reported = begun
    while chunk := answer.read(_CHUNK):
        write(chunk)
        written += len(chunk)
        if total and written - reported >= max(total / 20, 16 << 20):
            reported = written
            progress(f"{name}: downloaded {written / 1e6:,.0f} of {total / 1e6:,.0f} MB")


def _verified(part: Path, url: str, expected: Expected, total: int | None) -> str:
    """The hash of a file; one that is not what it should be is removed."""
    nbytes = part.stat().st_size
    sha256 = hashlib.sha256()
    git_blob = hashlib.sha1(b"blob %d\0" % nbytes, usedforsecurity=False)
    with part.open("rb") as data:
        while chunk := data.read(_CHUNK):
            sha256.update(chunk)
            git_blob.update(chunk)
    checks = (
        ("bytes", total, nbytes),
        ("SHA-256", expected.sha256, sha256.hexdigest()),
        ("Git hash", expected.git_blob, git_blob.hexdigest()),
    )
    for what, wanted, got in checks:
        if wanted is not None and wanted != got:
            part.unlink()
            raise InputError(f"{url}: expected {what} {wanted}, got {got}")
    return sha256.hexdigest()


def status_error(url: str, status: int) -> PullError:
    """The error of an answer that is not the file."""
    hints = {
        401: "its owner asks for a token: accept its terms there, then set HF_TOKEN",
        403: "its owner asks for a token: accept its terms there, then set HF_TOKEN",
        404: "check the name; a private repository needs HF_TOKEN",
    }
    return PullError(f"{url}: expected the file, got status {status}", hints.get(status))


def _no_url(url: str) -> InputError:
    return InputError(f"{url!r:.200}: expected an address of HTTP or HTTPS")
