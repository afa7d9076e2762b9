"""Load of hostile clients: they cancel, send garbage and stall, beside some that behave.

    python tests/attacks/serving_attack.py http://127.0.0.1:8000 --clients 1000 --seconds 60

Exit code 0: every healthy request got the same response, and the server is idle afterward with no
KV block in use.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HEALTHY_TOKENS = 12
TIMEOUT_SECONDS = 120.0
"""Long, since a busy machine is slow: only a server that hangs may exceed it."""
PROMPT = "The lighthouse keeper counted"
_CLIENT_ERRORS = (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError)
"""What a misbehaving client may get."""


@dataclass
class AttackReport:
    """What the clients did and which responses were wrong."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


class ClientPool:
    """Clients of one server, each repeating actions until the time is over."""

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._until = time.monotonic() + seconds
        self._model = json.loads(get(f"{url}/v1/models"))["data"][0]["id"]
        self._expected = ""
        self.report = AttackReport()

    async def attack(self, clients: int) -> AttackReport:
        """One client in twenty behaves; the others choose random actions."""
        self._expected = await self._ask()
        healthy = max(1, clients // 20)
        await asyncio.gather(
            *(self._behave() for _ in range(healthy)),
            *(self._misbehave(random.Random(seed)) for seed in range(clients - healthy)),
        )
        return self.report

    async def _behave(self) -> None:
        while time.monotonic() < self._until:
            started = time.monotonic()
            try:
                text = await asyncio.wait_for(self._ask(), TIMEOUT_SECONDS)
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
                self.report.wrong.append(f"not answered: {type(error).__name__}: {error}")
                continue
            if text != self._expected:
                self.report.wrong.append(f"answered {text!r} instead of {self._expected!r}")
            self.report.slowest = max(self.report.slowest, time.monotonic() - started)
            self.report.done["healthy"] += 1

    async def _ask(self) -> str:
        body = self._body(max_tokens=HEALTHY_TOKENS, temperature=0)
        async with self._connected() as (reader, writer):
            writer.write(body)
            status = await reader.readline()
            length = 0
            while (line := await reader.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answer = json.loads(await reader.readexactly(length))
            if b" 200 " not in status:
                raise ValueError(f"{status!r} {answer}")
            text: str = answer["choices"][0]["text"]
            return text

    async def _misbehave(self, generator: random.Random) -> None:
        # Spread out: the kernel refuses a thousand connections at the same instant.
        await asyncio.sleep(generator.random())
        actions = (self._cancel_stream, self._cancel_whole, self._garbage, self._half, self._wrong)
        while time.monotonic() < self._until:
            action = generator.choice(actions)
            with contextlib.suppress(*_CLIENT_ERRORS):
                async with self._connected() as (reader, writer):
                    await asyncio.wait_for(action(generator, reader, writer), 10)
            self.report.done[action.__name__.strip("_")] += 1
            await asyncio.sleep(generator.random() * 0.2)

    async def _cancel_stream(
        self, generator: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(self._body(stream=True, max_tokens=200, n=generator.choice((1, 1, 1, 3))))
        for _ in range(generator.randrange(12)):
            await reader.readline()

    async def _cancel_whole(
        self, generator: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(self._body(max_tokens=200))
        await writer.drain()
        await asyncio.sleep(generator.random() * 0.3)

    async def _garbage(
        self, generator: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(generator.randbytes(generator.randrange(1, 2000)) + b"\r\n\r\n")
        await reader.read(100)

    async def _half(
        self, generator: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        body = self._body(max_tokens=5)
        writer.write(body[: generator.randrange(len(body))])
        await writer.drain()
        await asyncio.sleep(generator.random())

    async def _wrong(
        self, generator: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wrong = ({"n": -1}, {"prompt": 5}, {"max_tokens": 10**9}, {"prompt": "x" * 100_000})
        writer.write(self._body(**generator.choice(wrong)))
        status = await reader.readline()
        if status and b" 400 " not in status:
            self.report.wrong.append(f"a wrong request got {status!r}")

    def _body(self, **fields: object) -> bytes:
        data = json.dumps({"model": self._model, "prompt": PROMPT, **fields}).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data

    @contextlib.asynccontextmanager
    async def _connected(self):  # type: ignore[no-untyped-def]
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


def get(url: str) -> str:
    """The body of a GET request."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def busy(url: str) -> dict[str, float]:
    """The server's load by its metrics: running and waiting requests, KV cache usage."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    found = {}
    for line in get(f"{url}/metrics").splitlines():
        if line.startswith(names):
            name, value = line.rsplit(" ", 1)
            found[name.partition("{")[0]] = float(value)
    assert len(found) == len(names)
    return found


def attack(url: str, clients: int, seconds: float) -> AttackReport:
    """Attack the server, then report requests and blocks that it has leaked."""
    report = asyncio.run(ClientPool(url, seconds).attack(clients))
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any((left := busy(url)).values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    report.wrong += [f"{name} is {value} afterward" for name, value in left.items() if value]
    return report


def main() -> int:
    """Attack from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    report = attack(arguments.url.rstrip("/"), arguments.clients, arguments.seconds)
    print(dict(report.done), f"slowest healthy answer {report.slowest:.2f} s")
    for wrong, count in Counter(report.wrong).most_common(20):
        print(f"wrong, {count} times: {wrong}", file=sys.stderr)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
