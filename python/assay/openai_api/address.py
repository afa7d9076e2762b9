"""The address of an OpenAI-compatible server: headers of a request, and what a failure means."""

from __future__ import annotations

import os
from typing import Any, Final

from assay.errors import InputError
from assay.escaping import clipped
from assay.http_client import ServerError, read_address, without_password

KEY_VARIABLE: Final = "ASSAY_API_KEY"
"""The environment variable whose value is sent as bearer token, as `assay serve` expects it."""

_SHOWN: Final = 200


class ServerAddress:
    """Where a server is, and the headers of a request to it.

    >>> ServerAddress("http://localhost:8000/v1/").url
    'http://localhost:8000'
    """

    def __init__(self, url: str, what: str = "--url", *, sends_key: bool = True) -> None:
        """Take a URL apart; `what` is named in the error of one that cannot be used.

        A server that was found and not named gets no key: another user may have started it.
        """
        error = InputError(
            f'{what}: expected http://HOST:PORT, got "{without_password(url)}"',
            "for example http://localhost:8000",
        )
        self.place = read_address(url, error)
        self.host = self.place.host
        # Clients of OpenAI's name the folder of the interface; metrics are beside it.
        self.base = self.place.path.rstrip("/").removesuffix("/v1")
        self.url = f"{self.place.origin}{self.base}"
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
