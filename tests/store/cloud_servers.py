"""Small servers of Google Cloud Storage (its XML interface) and Azure Blob Storage: what obstore sends, no more."""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from s3_server import KEY_ID, PAGE, S3Server

Answered = tuple[int, bytes, dict[str, str]]


class GoogleServer(S3Server):
    """Listings as of S3; conditions by generation, of which 0 is that of no object."""

    scheme = "gs"

    def environment(self, key: str = KEY_ID) -> dict[str, str]:
        """What leads a client here."""
        return {"GOOGLE_BASE_URL": self.url, "GOOGLE_BEARER_TOKEN": key}

    def _denied(self, authorization: str) -> tuple[int, bytes] | None:
        if authorization == f"Bearer {KEY_ID}":
            return None
        return 401, b"<Error><Code>AuthenticationRequired</Code></Error>"

    def _done(self, request: Any, content: bytes) -> Answered:
        bucket, _, key = unquote(urlsplit(request.path).path).lstrip("/").partition("/")
        is_missing = bucket in self.buckets and key not in self.objects
        if request.command == "DELETE" and is_missing:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        return super()._done(request, content)

    def _put(self, request: Any, key: str, content: bytes) -> Answered:
        self.conditions += "x-goog-if-generation-match" in request.headers
        if request.headers.get("x-goog-if-generation-match") == "0" and key in self.objects:
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
        return super()._put(request, key, content)


class AzureServer(S3Server):
    """Containers; several blobs are deleted by one request of several parts."""

    scheme = "az"

    def environment(self, key: str = KEY_ID) -> dict[str, str]:
        """What leads a client here; the account is what is looked at, not what its key signs."""
        return {
            "AZURE_STORAGE_ENDPOINT": self.url,
            "AZURE_STORAGE_ACCOUNT_NAME": key,
            "AZURE_STORAGE_ACCOUNT_KEY": "dmVyeS1zZWNyZXQ=",
        }

    def _denied(self, authorization: str) -> tuple[int, bytes] | None:
        if authorization.startswith(f"SharedKey {KEY_ID}:"):
            return None
        return 403, b"<Error><Code>AuthenticationFailed</Code></Error>"

    def _done(self, request: Any, content: bytes) -> Answered:
        parts = urlsplit(request.path)
        container, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        if container not in self.buckets:
            return 404, b"<Error><Code>ContainerNotFound</Code></Error>", {}
        with self._lock:
            if request.command == "PUT":
                self.conditions += "If-None-Match" in request.headers
                if request.headers.get("If-None-Match") == "*" and key in self.objects:
                    return 409, b"<Error><Code>BlobAlreadyExists</Code></Error>", {}
                self.objects[key] = (content, time.time())
                return 201, b"", {"ETag": '"x"'}
            if query.get("comp") == ["batch"]:
                return self._batch(content)
            if query.get("comp") == ["list"]:
                return self._blobs(query)
            if key not in self.objects:
                return 404, b"<Error><Code>BlobNotFound</Code></Error>", {}
            stored, at = self.objects[key]
            return 200, stored, {"Last-Modified": formatdate(at, usegmt=True), "ETag": '"x"'}

    def _batch(self, content: bytes) -> Answered:
        """Every `DELETE` of a request of several parts, each with an answer of its own."""
        answers = ""
        for number, path in enumerate(re.findall(r"DELETE (\S+) HTTP", content.decode())):
            key = unquote(path).lstrip("/").partition("/")[2]
            was_there = self.objects.pop(key, None) is not None
            status = "202 Accepted" if was_there else "404 The specified blob does not exist."
            answers += (
                "--answers\r\nContent-Type: application/http\r\n"
                f"Content-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n\r\n"
            )
        headers = {"Content-Type": "multipart/mixed; boundary=answers"}
        return 202, f"{answers}--answers--\r\n".encode(), headers

    def _blobs(self, query: dict[str, list[str]]) -> Answered:
        prefix, after = query.get("prefix", [""])[0], query.get("marker", [""])[0]
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        rows = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            f"<Last-Modified>{formatdate(self.objects[key][1], usegmt=True)}</Last-Modified>"
            f"<Content-Length>{len(self.objects[key][0])}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type><Etag>x</Etag>"
            "</Properties></Blob>"
            for key in keys[:PAGE]
        )
        marker = escape(keys[PAGE - 1]) if len(keys) > PAGE else ""
        text = (
            f"<EnumerationResults><Blobs>{rows}</Blobs><NextMarker>{marker}</NextMarker>"
            "</EnumerationResults>"
        )
        return 200, text.encode(), {"Content-Type": "application/xml"}
