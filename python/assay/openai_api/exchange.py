"""One request to a server and its answer: every failure is a `ServerError`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from assay import http_client
from assay.http_client import HttpResponse, read_body
from assay.openai_api.address import ServerAddress


@contextmanager
def answered(
    address: ServerAddress,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    timeout_s: float = 60.0,
) -> Iterator[HttpResponse]:
    """A successful answer, for as long as the block; a body makes it a POST."""
    data = None if body is None else json.dumps(body)
    method = method or ("GET" if body is None else "POST")
    target, headers = address.base + path, address.headers()
    try:
        with http_client.answered(
            address.place, method, target, data, headers, timeout_s=timeout_s
        ) as answer:
            if not http_client.is_success(answer):
                raise address.refused(path, answer.status, read_body(answer))
            yield answer
    except http_client.FAILURES as error:
        raise address.failed(path, error) from None


def exchange(
    address: ServerAddress,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    timeout_s: float = 60.0,
) -> bytes:
    """The body of a successful answer."""
    with answered(address, path, body, method=method, timeout_s=timeout_s) as answer:
        return read_body(answer)


def exchange_json(
    address: ServerAddress, path: str, body: Any = None, *, timeout_s: float = 60.0
) -> Any:
    """A successful answer as JSON data."""
    with answered(address, path, body, timeout_s=timeout_s) as answer:
        return json.loads(read_body(answer))
