"""HTTP/1.1 over one kept-alive connection: one exchange at a time, every arrival stamped.

`data_received` reads the clock before anything else. Bodies are kept as pieces with their times and are
parsed after the window: while requests are under way, the client does little but take the time.
That is why it has a transport of its own; addresses and TLS are those of `http_client`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from assay.openai_api.address import ServerAddress

_MAX_HEADER: Final = 64 << 10
_MAX_BODY: Final = 64 << 20
_LIMIT: Final = 1 << 20
"""The longest line of a chunk's size, with extensions, is far shorter; so is this the most buffered."""


class ProtocolError(Exception):
    """The server does not speak HTTP/1.1."""


@dataclass(slots=True)
class Exchange:
    """What came back for one request; times are seconds of the monotonic clock."""

    status: int = 0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """Parts of the body as they arrived."""

    nbytes: int = 0
    """The size of the body so far."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(piece for _, piece in self.pieces)


class Connection(asyncio.Protocol):
    """A connection to a server; `exchange` sends a request and waits for the end of its answer."""

    def __init__(self) -> None:
        self.idle_since_s = time.monotonic()
        self.is_usable = False
        """Whether the server keeps it open for another request."""
        self.answers = 0
        """Whole answers that came over it."""
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[Exchange] | None = None
        self._begin()

    def _begin(self) -> None:
        self._answer = Exchange()
        self._buffer = bytearray()
        self._in_body = False
        self._left: int | None = None
        """Bytes to come of the chunk, or of a body of known length; None until the end."""
        self._is_chunked = False

    async def exchange(self, request: bytes) -> Exchange:
        """Send a whole request; the answer to it.

        Raises `OSError` or `ProtocolError` where the answer does not come whole.
        """
        if self._transport is None or not self.is_usable:
            raise ConnectionResetError("the connection is closed")
        self._begin()
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            answer = await self._done
            self.answers += 1
            return answer
        except BaseException:
            # An answer that was given up still streams.
            self.close()
            raise
        finally:
            self._done = None
            self.idle_since_s = time.monotonic()

    @property
    def is_silent(self) -> bool:
        """Whether no byte of an answer to the last request arrived."""
        return not self._in_body and not self._buffer

    def close(self) -> None:
        """Close it, with an answer under way or without."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_usable = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, or this side, ended it."""
        self.is_usable = False
        ends_body = self._in_body and not self._is_chunked and self._left is None
        if self._done is not None and ends_body and exc is None:
            self._finish()
        elif self._done is not None:
            self._fail(exc or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Stamp what arrived and take the protocol off it."""
        now_s = time.monotonic()
        if self._done is None:
            # Nothing was asked: the connection is out of step.
            self.close()
            return
        try:
            self._feed(now_s, data)
        except (ProtocolError, ValueError) as error:
            self._fail(ProtocolError(f"expected HTTP/1.1, got: {error}"))
            self.close()

    def _feed(self, now_s: float, data: bytes) -> None:
        if not self._in_body:
            self._buffer += data
            if not self._take_head():
                return
            data, self._buffer = bytes(self._buffer), bytearray()
        if self._is_chunked:
            self._take_chunks(now_s, data)
        else:
            self._take_plain(now_s, data)

    def _take_head(self) -> bool:
        """Read status and headers; whether they are complete."""
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEADER:
                    raise ProtocolError(f"headers of more than {_MAX_HEADER} bytes")
                return False
            lines = bytes(self._buffer[:end]).split(b"\r\n")
            del self._buffer[: end + 4]
            version, _, rest = lines[0].partition(b" ")
            if not version.startswith(b"HTTP/1."):
                raise ProtocolError(repr(lines[0][:40]))
            self._answer.status = int(rest[:3])
            if self._answer.status >= 200:
                break
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip().lower()
        keeps = headers.get(b"connection", b"") != b"close" and version != b"HTTP/1.0"
        self._is_chunked = b"chunked" in headers.get(b"transfer-encoding", b"")
        if not self._is_chunked and b"content-length" in headers:
            self._left = int(headers[b"content-length"])
            if self._left < 0:
                raise ProtocolError("a negative content-length")
        self.is_usable = keeps and (self._is_chunked or self._left is not None)
        self._in_body = True
        return True

    def _take_plain(self, now_s: float, data: bytes) -> None:
        if data:
            self._keep(now_s, data if self._left is None else data[: self._left])
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self.is_usable = False
            if self._left <= 0:
                self._finish()

    def _take_chunks(self, now_s: float, data: bytes) -> None:
        """Decode whole and part chunks; `_left` counts the bytes of the chunk with its line end."""
        if self._buffer:
            data = bytes(self._buffer) + data
            self._buffer = bytearray()
        at, size = 0, len(data)
        while at < size:
            if self._left is None:
                end = data.find(b"\r\n", at)
                if end < 0:
                    if size - at > _LIMIT:
                        raise ProtocolError("a line of a chunk's size without an end")
                    self._buffer += data[at:]
                    return
                length = int(data[at:end].partition(b";")[0], 16)
                if length < 0:
                    raise ProtocolError("a chunk of negative size")
                if length == 0:
                    self._take_trailers(data[end + 2 :])
                    return
                self._left, at = length + 2, end + 2
            taken = min(self._left, size - at)
            # The last two bytes of a chunk are its line end.
            text = taken - max(0, 2 - (self._left - taken))
            if text > 0:
                self._keep(now_s, data[at : at + text])
            at += taken
            self._left -= taken
            if self._left == 0:
                self._left = None

    def _take_trailers(self, data: bytes) -> None:
        """The end of the body: trailers up to an empty line."""
        if data.startswith(b"\r\n") or data.endswith(b"\r\n\r\n"):
            self._finish()
            return
        if len(data) > _MAX_HEADER:
            raise ProtocolError(f"trailers of more than {_MAX_HEADER} bytes")
        self._buffer = bytearray(b"0\r\n" + data)

    def _keep(self, now_s: float, data: bytes) -> None:
        self._answer.nbytes += len(data)
        if self._answer.nbytes > _MAX_BODY:
            raise ProtocolError(f"an answer of more than {_MAX_BODY >> 20} MiB")
        self._answer.pieces.append((now_s, data))

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(self._answer)
        if not self.is_usable and self._transport is not None:
            self._transport.close()

    def _fail(self, error: Exception) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)


async def connect(address: ServerAddress) -> Connection:
    """Open a connection to a server."""
    loop = asyncio.get_running_loop()
    place = address.place
    _, connection = await loop.create_connection(
        Connection, place.host, place.effective_port, ssl=place.tls_context()
    )
    return connection


def request_bytes(
    address: ServerAddress, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> bytes:
    """A whole request; built before the window, so that sending is one write."""
    lines = [f"{method} {address.base}{path} HTTP/1.1", f"Host: {address.place.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
