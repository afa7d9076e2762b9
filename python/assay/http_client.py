"""The HTTP client: addresses, one request and its answer, connections that are kept, and events.

All requests go through it, but those of the load client (`load/connection.py`), whose transport of its
own stamps every arrival. No redirect is followed, and no proxy is asked.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from assay.errors import AssayError, InputError

FAILURES: Final = (OSError, http.client.HTTPException, ValueError, RecursionError)
"""What reading an answer may end in; deeply nested JSON ends in a `RecursionError`."""
MAX_BODY: Final = 64 << 20
_MAX_LINE: Final = 4 << 20

HttpResponse = http.client.HTTPResponse


class ServerError(AssayError):
    """A server that does not answer as expected."""

    def __init__(self, message: str, hint: str | None = None, status: int | None = None) -> None:
        """Store the message, the hint and the HTTP status, where there was one."""
        super().__init__(message, hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int | None
    path: str
    query: str
    credentials: tuple[str, str] | None
    """User and password; no text of this class shows them."""

    @property
    def authority(self) -> str:
        """Host and port."""
        place = f"[{self.host}]" if ":" in self.host else self.host
        return place if self.port is None else f"{place}:{self.port}"

    @property
    def origin(self) -> str:
        """The URL without its path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def effective_port(self) -> int:
        """The port, or that of the scheme."""
        return self.port or (443 if self.scheme == "https" else 80)

    @property
    def target(self) -> str:
        """Path and query, as a request names them."""
        return (self.path or "/") + (f"?{self.query}" if self.query else "")

    def tls_context(self, certificate: str = "") -> ssl.SSLContext | None:
        """How the server is trusted: by a file of authorities, or those of the system."""
        if self.scheme != "https":
            return None
        return ssl.create_default_context(cafile=certificate or None)


def read_address(url: str, error: InputError) -> Address:
    """Take a URL of HTTP or HTTPS apart; raises the error where it is none.

    >>> read_address("http://localhost:8000/metrics", InputError("no URL")).origin
    'http://localhost:8000'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise error from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise error
    user = parts.username
    secret = None if user is None else (unquote(user), unquote(parts.password or ""))
    return Address(parts.scheme, parts.hostname, port, parts.path, parts.query, secret)


def without_password(url: str) -> str:
    """A URL to print, usable or not."""
    return url.rpartition("@")[2]


def connect(
    address: Address, timeout_s: float, certificate: str = ""
) -> http.client.HTTPConnection:
    """A connection that opens with its first request."""
    if context := address.tls_context(certificate):
        return http.client.HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=context
        )
    return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)


@contextmanager
def answered(
    address: Address,
    method: str,
    target: str,
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 60.0,
    certificate: str = "",
) -> Iterator[HttpResponse]:
    """Send a request; its answer for as long as the block. Raises what `FAILURES` lists."""
    with closing(connect(address, timeout_s, certificate)) as connection:
        connection.request(method, target, body, dict(headers or {}))
        # An answer that ends its connection owns the socket: closing the connection is not enough.
        with closing(connection.getresponse()) as answer:
            yield answer


def is_success(answer: HttpResponse) -> bool:
    """Whether the server did what it was asked."""
    return 200 <= answer.status < 300


def read_body(
    answer: HttpResponse, *, most: int = MAX_BODY, deadline_s: float | None = None
) -> bytes:
    """The whole body; one that is too large, or not there in time, is a failure."""
    body = b""
    while chunk := answer.read1(1 << 16):
        body += chunk
        if len(body) > most:
            raise ValueError(f"the answer is larger than {most:,} bytes")
        if deadline_s is not None and time.monotonic() > deadline_s:
            raise TimeoutError("no complete answer in time")
    return body


def server_sent_events(answer: HttpResponse) -> Iterator[dict[str, Any]]:
    """Server-sent events that are JSON objects, until the end or `[DONE]`."""
    while line := answer.readline(_MAX_LINE):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            # Read on: the connection ends properly.
            answer.read(_MAX_LINE)
            return
        event = json.loads(data)
        if isinstance(event, dict):
            yield event


class KeptConnection:
    """A connection that is kept for the next request, and opened anew where the server ended it."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Nothing is opened yet."""
        self._address, self._timeout_s = address, timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def get(self, target: str, headers: Mapping[str, str], *, most: int) -> tuple[int, bytes]:
        """Status and body of an answer that is complete in time; raises what `FAILURES` lists."""
        deadline_s = time.monotonic() + self._timeout_s
        was_kept = self._connection is not None
        try:
            answer = self._ask(target, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            if not was_kept:
                raise
            self.close()
            answer = self._ask(target, headers)
        try:
            body = read_body(answer, most=most, deadline_s=deadline_s)
        except FAILURES:
            self.close()
            raise
        # Read to its end; the connection does not take another request before it is closed.
        answer.close()
        return answer.status, body

    def _ask(self, target: str, headers: Mapping[str, str]) -> HttpResponse:
        if self._connection is None:
            self._connection = connect(self._address, self._timeout_s)
        self._connection.request("GET", target, headers=dict(headers))
        return self._connection.getresponse()

    def close(self) -> None:
        """Close it; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
