"""A program: an OpenAI-compatible server whose answers come by a schedule, for benches of load clients.

`python -m assay.bench.suites.load_server TTFT_S ITL_S` prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys

_EVENT = (
    b'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,'
    b'"text":" word","logprobs":null,"finish_reason":null}]}\n\n'
)
_START = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_TOKEN = _chunk(_EVENT)


class Server:
    """Streams tokens by the clock, or without a pause where both times are zero."""

    def __init__(self, ttft_s: float, itl_s: float) -> None:
        self._ttft_s, self._itl_s = ttft_s, itl_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of one connection until it ends."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                if head.startswith(b"POST "):
                    await self._stream(writer, json.loads(body))
                elif head.startswith(b"GET /v1/models "):
                    _plain(writer, b"200 OK", json.dumps({"data": [{"id": "m"}]}).encode())
                else:
                    _plain(writer, b"404 Not Found", b"{}")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            # The client left.
            pass
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, asked: dict[str, object]) -> None:
        tokens = int(str(asked["max_tokens"]))
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._ttft_s
        writer.write(_START)
        for _ in range(tokens):
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            writer.write(_TOKEN)
            due_s += self._itl_s
        usage = {"prompt_tokens": len(str(asked["prompt"]).split()), "completion_tokens": tokens}
        last = json.dumps({"choices": [], "usage": usage}).encode()
        writer.write(
            _chunk(b"data: " + last + b"\n\n") + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        )


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _plain(writer: asyncio.StreamWriter, status: bytes, body: bytes) -> None:
    writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


async def _run(ttft_s: float, itl_s: float) -> None:
    server = Server(ttft_s, itl_s)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    listening.close()


if __name__ == "__main__":
    asyncio.run(_run(float(sys.argv[1]), float(sys.argv[2])))
