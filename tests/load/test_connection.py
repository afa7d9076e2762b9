"""HTTP answers in every framing, cut at any byte; and servers that do not speak HTTP."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from assay.load.answers import Sent, to_record
from assay.load.connection import Connection, Exchange, ProtocolError

EVENTS = [
    b'data: {"choices": [{"text": "one \xc3\xa9"}]}\n\n',
    b": a comment\n\n",
    b'data: {"choices": [{"text": " two"}]}\n\n',
    b'data: {"choices": [{"text": ""}]}\n\n',
    b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}\n\n',
    b"data: [DONE]\n\n",
]
BODY = b"".join(EVENTS)
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x;name=value\r\n%s\r\n" % (len(event), event) for event in EVENTS)
    + b"0\r\nTrailer: x\r\n\r\n"
)
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


class FakeTransport(asyncio.Transport):
    """Takes what is written, and notes that it was closed."""

    is_closed = False

    def write(self, data: Any) -> None:
        del data

    def abort(self) -> None:
        self.is_closed = True

    def close(self) -> None:
        self.is_closed = True


async def exchange(parts: list[bytes], *, ends: bool = False) -> tuple[Exchange, Connection]:
    """An answer that arrives in these parts."""
    connection = Connection()
    connection.connection_made(FakeTransport())
    task = asyncio.create_task(connection.exchange(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for part in parts:
        connection.data_received(part)
    if ends:
        connection.connection_lost(None)
    return await asyncio.wait_for(task, 1), connection


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    places = sorted(rng.sample(range(1, len(data)), rng.randint(0, min(40, len(data) - 1))))
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("whole", [CHUNKED, PLAIN], ids=["chunked", "plain"])
def test_cuts_anywhere_give_the_same_answer(whole: bytes) -> None:
    rng = random.Random(18)
    cuts = [[whole], [bytes([byte]) for byte in whole], *(cut(whole, rng) for _ in range(60))]
    for parts in cuts:
        found, connection = asyncio.run(exchange(parts))
        assert (found.status, found.body, connection.is_usable) == (200, BODY, True)
        record = to_record(Sent(0, 0.0, 1.0, None, found), 0.0)
        assert (record.output_tokens, len(record.itls_s), record.error) == (3, 2, None)


def test_an_answer_that_the_end_of_the_connection_ends() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    found, connection = asyncio.run(exchange([head + BODY[:9], BODY[9:]], ends=True))
    assert found.body == BODY
    assert not connection.is_usable


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"]
)
def test_connections_that_the_server_does_not_keep(head: bytes) -> None:
    found, connection = asyncio.run(exchange([head + b"Content-Length: 2\r\n\r\nok"]))
    assert found.body == b"ok"
    assert not connection.is_usable


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"A" * (65 << 10),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a" * (65 << 10),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * (65 << 20),
    ],
    ids=lambda answer: repr(answer[:60]),
)
def test_what_is_not_http_fails_and_closes(answer: bytes) -> None:
    async def fails() -> None:
        connection = Connection()
        transport = FakeTransport()
        connection.connection_made(transport)
        task = asyncio.create_task(connection.exchange(b""))
        await asyncio.sleep(0)
        connection.data_received(answer)
        with pytest.raises(ProtocolError):
            await asyncio.wait_for(task, 1)
        assert transport.is_closed
        with pytest.raises(ConnectionResetError):
            await connection.exchange(b"")

    asyncio.run(fails())


def test_an_answer_cut_short_fails() -> None:
    for whole in (CHUNKED, PLAIN):
        with pytest.raises(ConnectionResetError):
            asyncio.run(exchange([whole[:-4]], ends=True))


def test_more_than_was_asked_for_closes_the_connection() -> None:
    found, connection = asyncio.run(exchange([PLAIN + b"HTTP/1.1 200 OK\r\n\r\n"]))
    assert found.body == BODY
    assert not connection.is_usable


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([b"data: " + b"[" * 100_000 + b"\n\n"], "expected server-sent events of JSON, got:"),
        ([b"data: 3\n\n"], "expected tokens, got none"),
        ([b'data: {"choices": 3}\n\n'], "expected tokens, got none"),
        ([b'data: {"choices": [{"text": "a"}], "usage": 3}\n\n'], "expected the usage"),
        (
            [b'data: {"choices": [{"text": "a"}], "usage": {"prompt_tokens": true}}\n\n'],
            "expected the usage",
        ),
        ([b"\n"], "expected tokens, got none"),
    ],
)
def test_bodies_that_make_no_sense(events: list[bytes], error: str) -> None:
    found = Exchange(200, [(0.0, event) for event in events])
    record = to_record(Sent(0, 0.0, 1.0, None, found), 0.0)
    assert str(record.error).startswith(error)
