"""A crowd against a server: clients that cancel, send garbage, stall, and some that behave.

    python tests/attacks/serving_attack.py http://127.0.0.1:8000 --clients 1000 --seconds 60

Exit code 0 says that every healthy request was answered, alike each time, and that the server is
idle afterward with no KV block in use.
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
PATIENCE_SECONDS = 120.0
"""A machine that is busy with other things is slow to answer; stuck is another matter."""
PROMPT = "The lighthouse keeper counted"
_MESSY = (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError)
"""What a client that misbehaves has to expect."""


@dataclass
class Tally:
    """What the crowd did and saw."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


class Crowd:
    """Clients of one server, each doing one thing after another until the time is over."""

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._until = time.monotonic() + seconds
        self._model = json.loads(get(f"{url}/v1/models"))["data"][0]["id"]
        self._expected = ""
        self.tally = Tally()

    async def attack(self, clients: int) -> Tally:
        """One client in twenty behaves; the others choose what to do by lot."""
        self._expected = await self._ask()
        healthy = max(1, clients // 20)
        await asyncio.gather(
            *(self._behave() for _ in range(healthy)),
            *(self._misbehave(random.Random(seed)) for seed in range(clients - healthy)),
        )
        return self.tally

    async def _behave(self) -> None:
        while time.monotonic() < self._until:
            started = time.monotonic()
            try:
                text = await asyncio.wait_for(self._ask(), PATIENCE_SECONDS)
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
                self.tally.wrong.append(f"not answered: {type(error).__name__}: {error}")
                continue
            if text != self._expected:
                self.tally.wrong.append(f"answered {text!r} instead of {self._expected!r}")
            self.tally.slowest = max(self.tally.slowest, time.monotonic() - started)
            self.tally.done["healthy"] += 1

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

    async def _misbehave(self, lot: random.Random) -> None:
        # A thousand connections in one instant are refused by the kernel, not by the server.
        await asyncio.sleep(lot.random())
        acts = (self._cancel_stream, self._cancel_whole, self._garbage, self._half, self._wrong)
        while time.monotonic() < self._until:
            act = lot.choice(acts)
            with contextlib.suppress(*_MESSY):
                async with self._connected() as (reader, writer):
                    await asyncio.wait_for(act(lot, reader, writer), 10)
            self.tally.done[act.__name__.strip("_")] += 1
            await asyncio.sleep(lot.random() * 0.2)

    async def _cancel_stream(
        self, lot: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(self._body(stream=True, max_tokens=200, n=lot.choice((1, 1, 1, 3))))
        for _ in range(lot.randrange(12)):
            await reader.readline()

    async def _cancel_whole(
        self, lot: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(self._body(max_tokens=200))
        await writer.drain()
        await asyncio.sleep(lot.random() * 0.3)

    async def _garbage(
        self, lot: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(lot.randbytes(lot.randrange(1, 2000)) + b"\r\n\r\n")
        await reader.read(100)

    async def _half(
        self, lot: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        body = self._body(max_tokens=5)
        writer.write(body[: lot.randrange(len(body))])
        await writer.drain()
        await asyncio.sleep(lot.random())

    async def _wrong(
        self, lot: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wrong = ({"n": -1}, {"prompt": 5}, {"max_tokens": 10**9}, {"prompt": "x" * 100_000})
        writer.write(self._body(**lot.choice(wrong)))
        status = await reader.readline()
        if status and b" 400 " not in status:
            self.tally.wrong.append(f"a wrong request got {status!r}")

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
    """The text at an address of the server."""
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def busy(url: str) -> dict[str, float]:
    """What the server says is under way: requests running and waiting, KV blocks in use."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    found = {}
    for line in get(f"{url}/metrics").splitlines():
        if line.startswith(names):
            name, value = line.rsplit(" ", 1)
            found[name.partition("{")[0]] = float(value)
    assert len(found) == len(names)
    return found


def attack(url: str, clients: int, seconds: float) -> Tally:
    """Attack the server, then add to what is wrong anything it has not let go of."""
    tally = asyncio.run(Crowd(url, seconds).attack(clients))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any((left := busy(url)).values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    tally.wrong += [f"{name} is {value} afterward" for name, value in left.items() if value]
    return tally


def main() -> int:
    """Attack from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    tally = attack(arguments.url.rstrip("/"), arguments.clients, arguments.seconds)
    print(dict(tally.done), f"slowest healthy answer {tally.slowest:.2f} s")
    for wrong, count in Counter(tally.wrong).most_common(20):
        print(f"wrong, {count} times: {wrong}", file=sys.stderr)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
