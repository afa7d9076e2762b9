"""A small S3 server in this process, which can be told to fail: what obstore sends, and no more."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

KEY_ID = "right-key-id"
PAGE = 1000

Fault = Callable[[int, str], str | None]
"""From the number and method of a request to what happens to it: `before` (the connection is cut
before it is read), `after` (it is done, and the answer is lost), `half` (half of the answer
arrives), `error` (status 500)."""


class S3Server:
    """Buckets in memory; `fault` decides about every request."""

    scheme = "s3"

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.buckets = {"bucket"}
        self.fault: Fault = lambda number, method: None
        self.requests = 0
        self.has_conditions = True
        """False for a server that answers 501 to If-None-Match."""
        self.refused_conditions = 0
        self.conditions = 0
        """Writes that were to be refused where there is an object."""
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *parts: Any) -> None:
                pass

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, ValueError):
                    self.close_connection = True

            def answered(self) -> None:
                server.answer(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answered

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(
            target=lambda: self._http.serve_forever(poll_interval=0.02), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, request: Any) -> None:
        with self._lock:
            self.requests += 1
            number = self.requests
        length = int(request.headers.get("Content-Length") or 0)
        content = request.rfile.read(length)
        if len(content) < length:
            # The client died: an object is put whole or not at all.
            request.close_connection = True
            return
        fault = self.fault(number, request.command)
        if fault == "before":
            request.close_connection = True
            request.connection.close()
            return
        if fault == "error":
            self._send(request, 500, b"<Error><Code>InternalError</Code></Error>")
            return
        if (denied := self._denied(request.headers.get("Authorization", ""))) is not None:
            self._send(request, *denied)
            return
        status, body, headers = self._done(request, content)
        if fault == "after":
            request.close_connection = True
            request.connection.close()
            return
        self._send(request, status, body, headers, is_cut=fault == "half")

    def environment(self, key: str = KEY_ID) -> dict[str, str]:
        """What leads a client here."""
        return environment(self, key)

    def _denied(self, authorization: str) -> tuple[int, bytes] | None:
        """Status and text where a client has another key."""
        if f"Credential={KEY_ID}/" in authorization:
            return None
        return 403, b"<Error><Code>InvalidAccessKeyId</Code></Error>"

    def _done(self, request: Any, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        parts = urlsplit(request.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        if bucket not in self.buckets:
            return 404, b"<Error><Code>NoSuchBucket</Code></Error>", {}
        with self._lock:
            if request.command == "PUT":
                return self._put(request, key, content)
            if request.command == "POST":
                return self._delete(content)
            if "list-type" in query:
                return self._list(query)
            if key not in self.objects:
                status = 204 if request.command == "DELETE" else 404
                return (
                    status,
                    b"<Error><Code>NoSuchKey</Code></Error>" if status == 404 else b"",
                    {},
                )
            stored, at = self.objects[key]
            if request.command == "DELETE":
                del self.objects[key]
                return 204, b"", {}
            return 200, stored, {"Last-Modified": formatdate(at, usegmt=True), "ETag": '"x"'}

    def _put(self, request: Any, key: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        stated = request.headers.get("x-amz-checksum-sha256")
        if stated and base64.b64decode(stated) != hashlib.sha256(content).digest():
            return 400, b"<Error><Code>BadDigest</Code></Error>", {}
        if "If-None-Match" in request.headers and not self.has_conditions:
            self.refused_conditions += 1
            return 501, b"<Error><Code>NotImplemented</Code></Error>", {}
        self.conditions += "If-None-Match" in request.headers
        if request.headers.get("If-None-Match") == "*" and key in self.objects:
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
        self.objects[key] = (content, time.time())
        return 200, b"", {"ETag": '"x"'}

    def _delete(self, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        """Several objects at once: `POST ?delete`."""
        keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", content.decode())]
        for key in keys:
            self.objects.pop(key, None)
        rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return 200, f"<DeleteResult>{rows}</DeleteResult>".encode(), {}

    def _list(self, query: dict[str, list[str]]) -> tuple[int, bytes, dict[str, str]]:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", [""])[0]
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key][0])}</Size>"
            f"<LastModified>{datetime.fromtimestamp(self.objects[key][1], UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
            '</LastModified><ETag>"x"</ETag></Contents>'
            for key in keys[:PAGE]
        )
        more = len(keys) > PAGE
        token = (
            f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>"
            if more
            else ""
        )
        text = (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}"
            "</ListBucketResult>"
        )
        return 200, text.encode(), {"Content-Type": "application/xml"}

    def _send(
        self,
        request: Any,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        is_cut: bool = False,
    ) -> None:
        try:
            request.send_response(status)
            for name, value in (headers or {}).items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            if request.command == "HEAD":
                return
            request.wfile.write(body[: len(body) // 2] if is_cut else body)
            if is_cut:
                request.close_connection = True
                request.connection.close()
        except (ConnectionError, ValueError):
            request.close_connection = True


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    try:
        yield server
    finally:
        server.close()


def environment(server: S3Server, key_id: str = KEY_ID) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
    }
