"""One request and its whole answer: health, metrics, settings, answers that are not streamed."""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import closing
from typing import Any, Final

from assay.openai_api.address import ServerAddress

_MAX_BODY: Final = 64 << 20


def exchange(
    address: ServerAddress,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    timeout_s: float = 60.0,
) -> bytes:
    """The body of a successful answer; a body makes it a POST. Every failure is a `ServerError`."""
    kind = http.client.HTTPSConnection if address.tls else http.client.HTTPConnection
    more: dict[str, Any] = {"context": ssl.create_default_context()} if address.tls else {}
    connection = kind(address.host, address.port, timeout=timeout_s, **more)
    data = None if body is None else json.dumps(body)
    try:
        connection.request(
            method or ("GET" if body is None else "POST"),
            address.base + path,
            data,
            address.headers(),
        )
        with closing(connection.getresponse()) as answer:
            said = answer.read(_MAX_BODY)
            if answer.status != 200:
                raise address.refused(path, answer.status, said)
            return said
    except (OSError, http.client.HTTPException) as error:
        raise address.failed(path, error) from None
    finally:
        connection.close()


def exchange_json(
    address: ServerAddress, path: str, body: Any = None, *, timeout_s: float = 60.0
) -> Any:
    """A successful answer as JSON data."""
    said = exchange(address, path, body, timeout_s=timeout_s)
    try:
        return json.loads(said)
    # Deeply nested JSON ends in a RecursionError.
    except (ValueError, RecursionError) as error:
        raise address.failed(path, error) from None
