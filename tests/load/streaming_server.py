"""A fast OpenAI-compatible server on an event loop of its own, whose schedule is known."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Behavior:
    """What the server does; a token is a word."""

    ttft_s: float = 0.005
    itl_s: float = 0.002
    chunk: int = 1
    """Tokens of a chunk: more than one where it speculates."""
    slots: int = 1000
    """Requests that are served at once; others wait."""
    framing: str = "chunked"
    """chunked, or close: the end of the connection ends the answer."""
    sends_usage: bool = True
    takes_ignore_eos: bool = True
    has_completions: bool = True
    fails: Callable[[int], str | None] = lambda number: None
    """How the request with this number fails: 500, drop, garbage, error, hang; None does not."""
    has_chats: bool = True
    delta: Callable[[int], dict[str, Any]] | None = None
    """What a chat says instead of a word, by how many tokens were said."""
    silent_chunks: int = 0
    """Chunks of a chat before the first token that only name the role."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    connections: int = 0


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class _Server:
    def __init__(self, behavior: Behavior) -> None:
        self.behavior = behavior
        self.slots = asyncio.Semaphore(behavior.slots)
        self.count = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.behavior.connections += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            # The client left, or the test is over.
            pass
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.behavior.headers.append(head)
        lengths = [
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ]
        body = await reader.readexactly(lengths[0] if lengths else 0)
        path = head.split(b" ")[1].decode()
        if path == "/v1/models":
            card = {"id": "m", "root": "llama-3.1-8b", "max_model_len": 4096}
            return await _plain(writer, 200, {"data": [card]})
        chat = path == "/v1/chat/completions" and self.behavior.has_chats
        if not chat and not (path == "/v1/completions" and self.behavior.has_completions):
            return await _plain(writer, 404, {"error": {"message": "no such path"}})
        asked = json.loads(body)
        self.behavior.bodies.append(asked)
        if "ignore_eos" in asked and not self.behavior.takes_ignore_eos:
            return await _plain(writer, 400, {"error": {"message": "unknown field ignore_eos"}})
        # Probes before the window are of one token.
        number = self.count
        self.count += asked["max_tokens"] > 1
        failure = self.behavior.fails(number) if asked["max_tokens"] > 1 else None
        if failure == "500":
            return await _plain(writer, 500, {"error": {"message": "out of memory"}})
        async with self.slots:
            return await self._stream(writer, asked, chat, failure)

    async def _stream(
        self, writer: asyncio.StreamWriter, asked: dict[str, Any], chat: bool, failure: str | None
    ) -> bool:
        behavior = self.behavior
        closes = behavior.framing == "close"
        frame = (lambda data: data) if closes else _chunk
        how = b"Connection: close" if closes else b"Transfer-Encoding: chunked"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + how + b"\r\n\r\n")
        for _ in range(behavior.silent_chunks if chat else 0):
            writer.write(frame(_event({"choices": [{"delta": {"role": "assistant"}}]})))
        loop = asyncio.get_running_loop()
        due_s = loop.time() + behavior.ttft_s
        made = 0
        while made < asked["max_tokens"]:
            await asyncio.sleep(due_s - loop.time())
            size = min(behavior.chunk, asked["max_tokens"] - made)
            choice = {"delta": {"content": "word " * size}} if chat else {"text": "word " * size}
            if chat and behavior.delta is not None:
                choice = {"delta": behavior.delta(made)}
            writer.write(frame(_event({"choices": [choice]})))
            made += size
            due_s += behavior.itl_s
            if failure == "drop":
                return False
            if failure == "hang":
                await asyncio.sleep(3600)
            if failure == "garbage":
                writer.write(frame(b"data: {not json\n\n"))
            if failure == "error":
                writer.write(frame(_event({"error": {"message": "the engine died"}})))
                break
        if behavior.sends_usage:
            prompt = asked["messages"][0]["content"] if chat else asked["prompt"]
            usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": made}
            writer.write(frame(_event({"choices": [], "usage": usage})))
        writer.write(frame(b"data: [DONE]\n\n"))
        if not closes:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return not closes


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


async def _plain(writer: asyncio.StreamWriter, status: int, data: dict[str, Any]) -> bool:
    body = json.dumps(data).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return True


@contextmanager
def streaming_server(
    behavior: Behavior | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """The address of a server that behaves so, until the block ends."""
    ready = threading.Event()
    found: dict[str, Any] = {}

    async def main() -> None:
        server = _Server(behavior or Behavior())
        listening = await asyncio.start_server(
            server.serve, "127.0.0.1", 0, backlog=1024, ssl=tls, limit=1 << 22
        )
        stop = asyncio.Event()
        found.update(
            port=listening.sockets[0].getsockname()[1], loop=asyncio.get_running_loop(), stop=stop
        )
        ready.set()
        await stop.wait()
        listening.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{found['port']}"
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(timeout=20)
        assert not thread.is_alive()
