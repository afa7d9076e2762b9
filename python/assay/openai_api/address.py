"""The address of an OpenAI-compatible server, and the errors of talking to one."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import urlsplit

from assay.errors import AssayError, InputError
from assay.escaping import clipped

KEY_VARIABLE: Final = "ASSAY_API_KEY"
"""The environment variable whose value is sent as bearer token, as `assay serve` expects it."""

_SHOWN: Final = 200


class ServerError(AssayError):
    """A server that does not answer as an OpenAI-compatible one does."""

    def __init__(self, message: str, hint: str | None = None, status: int | None = None) -> None:
        """Store the message, the hint and the HTTP status, where there was one."""
        super().__init__(message, hint)
        self.status = status


class ServerAddress:
    """Where a server is, and the headers of a request to it.

    >>> ServerAddress("http://localhost:8000/v1/").url
    'http://localhost:8000'
    """

    def __init__(self, url: str, what: str = "--url", *, sends_key: bool = True) -> None:
        """Take a URL apart; `what` is named in the error of one that cannot be used.

        A server that was found and not named gets no key: another user may have started it.
        """
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise InputError(
                f'{what}: expected http://HOST:PORT, got "{url.rpartition("@")[2]}"',
                "for example http://localhost:8000",
            )
        self.tls, self.host, self.port = parts.scheme == "https", parts.hostname, port
        # Clients of OpenAI's name the folder of the interface; metrics are beside it.
        self.base = parts.path.rstrip("/").removesuffix("/v1")
        place = f"[{self.host}]" if ":" in self.host else self.host
        self.authority = f"{place}{'' if port is None else f':{port}'}"
        self.url = f"{parts.scheme}://{self.authority}{self.base}"
        self.sends_key = sends_key

    def headers(self) -> dict[str, str]:
        """The headers of a request with a JSON body; the key comes from the environment."""
        headers = {"Content-Type": "application/json", "User-Agent": "assay"}
        if self.sends_key and (key := os.environ.get(KEY_VARIABLE)):
            headers["Authorization"] = f"Bearer {key}"
        return headers

    def refused(self, path: str, status: int, body: bytes) -> ServerError:
        """The error of an answer that is not a success."""
        said = shown(body.decode("utf-8", "replace"))
        hint = None
        if status in (401, 403):
            hint = f"the server wants a key: set {KEY_VARIABLE}"
        return ServerError(
            f"{self.url}{path}: expected success, got {status}: {said}", hint, status
        )

    def failed(self, path: str, error: Exception) -> ServerError:
        """The error of no answer at all."""
        reason = shown(error) or type(error).__name__
        return ServerError(
            f"{self.url}{path}: expected an answer, got: {reason}",
            "is the server running, and the port right?",
        )


def shown(said: Any) -> str:
    """What a server said, safe to print."""
    return clipped(" ".join(str(said)[: 4 * _SHOWN].split()), _SHOWN)
