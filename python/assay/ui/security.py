"""Checks before every request, and headers after it.

A page on another site can make a browser send requests here, or rebind its own name to the
loopback address. So the Host header must be an address or a name of this machine, requests that a
browser marks as coming from another origin are refused, and the API wants a token in a header,
which no other origin can set. There is no cookie: browsers send cookies to every port of a host.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.errors import InputError
from assay.ui.errors import error_response

API: Final = "/api/"
MAX_BODY: Final = 1 << 20
"""Bytes of a request's body."""
SHORTEST_TOKEN: Final = 16
"""Characters of a token that nobody guesses."""

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        # The evaluator of the lab is WebAssembly; no script is made of text.
        "script-src 'self' 'wasm-unsafe-eval'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def check_token(token: str) -> None:
    """Refuse a token that is short or that an address cannot hold."""
    if len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"--token: expected at least {SHORTEST_TOKEN} characters, got {len(token)}",
            "without --token a random one is made",
        )
    if not token.isascii() or not all(
        character.isalnum() or character in "-_.~" for character in token
    ):
        raise InputError(
            "--token: expected letters, digits and - _ . ~ only, got other characters",
            "python -c 'import secrets; print(secrets.token_urlsafe())' prints one",
        )


class Guard:
    """Middleware: refuses what does not come from our own pages, and adds the headers."""

    def __init__(self, app: ASGIApp, *, token: str, host_names: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token.encode()
        self._host_names = {"localhost", *(name.lower() for name in host_names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_api = scope["path"].startswith(API)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *_HEADERS]
                if is_api:
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        refusal = self._refusal(scope, is_api=is_api)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, _limited(receive), send_with_headers)

    def _refusal(self, scope: Scope, *, is_api: bool) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not self._is_own(host):
            return error_response(
                421,
                "the Host header is not a name of this server",
                "open the address that assay ui printed",
            )
        if not is_api:
            return None
        if headers.get(b"sec-fetch-site", "none") not in ("same-origin", "none"):
            return error_response(403, "a request of another site")
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return error_response(403, "a request of another origin")
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        # A constant-time comparison leaks nothing about a partly correct token.
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            given.strip().encode("latin-1", "replace"), self._token
        ):
            response = error_response(
                401, "the token is missing or wrong", "open the link that assay ui printed"
            )
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        length = headers.get(b"content-length", "0")
        if not length.isdigit() or int(length[:20]) > MAX_BODY:
            return error_response(413, f"the request's body is larger than {MAX_BODY:,} bytes")
        return None

    def _is_own(self, host: str) -> bool:
        """Whether a Host header is an address or a known name; rebinding needs a foreign name."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if not name:
            return False
        if name.lower() in self._host_names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _limited(receive: Receive) -> Receive:
    """Receive at most `MAX_BODY` bytes; a chunked body that goes on is cut off."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY:
            return {"type": "http.disconnect"}
        return message

    return limited
