"""An OpenAI-compatible server whose speed and faults are options; standard library only.

A token takes --token-ms, over the speed that --speed-file has (1 where there is none) and a factor
that each start draws with --start-noise. --fail: exit, hang (at start), die (in the first
window), errors (every request), garbage (other words at other tokens), short (answers end early).
"""

import argparse
import asyncio
import json
import math
import os
import random
import sys
import time
from pathlib import Path


def options():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token-ms", type=float, default=0.5)
    parser.add_argument("--speed-file", default="")
    parser.add_argument("--start-noise", type=float, default=0.0)
    parser.add_argument("--fail", default="")
    parser.add_argument("--chats-only", action="store_true")
    parser.add_argument("--pids", default="", help="a file that gets the process of each start")
    return parser.parse_args()


class Server:
    def __init__(self, given):
        self.given = given
        speed = float(Path(given.speed_file).read_text()) if given.speed_file else 1.0
        drawn = math.exp(random.SystemRandom().gauss(0.0, given.start_noise))
        self.token_s = 1e-3 * given.token_ms / (speed * drawn)
        self.asked = 0

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [
                    int(line.partition(b":")[2])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                ]
                body = await reader.readexactly(length[0] if length else 0)
                await self.answer(head.split(b" ")[1].decode(), body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, path, body, writer):
        if path == "/v1/models":
            return plain(writer, 200, {"data": [{"id": "scripted", "max_model_len": 65536}]})
        if path != "/v1/completions" or self.given.chats_only:
            return plain(writer, 404, {"error": {"message": "no such path"}})
        asked = json.loads(body)
        self.asked += asked["max_tokens"] > 1
        fail = self.given.fail
        if fail == "die" and self.asked > 2:
            os._exit(3)
        if fail == "errors" and asked["max_tokens"] > 1:
            return plain(writer, 500, {"error": {"message": "out of luck"}})
        tokens = asked["max_tokens"] // (2 if fail == "short" else 1)
        words = [
            " xyzzy" if fail == "garbage" and place > 2 else f" w{place % 7}"
            for place in range(tokens)
        ]
        usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": tokens}
        if not asked.get("stream"):
            content = [record(word) for word in words]
            choice = {"text": "".join(words), "logprobs": {"content": content}}
            return plain(writer, 200, {"choices": [choice], "usage": usage})
        await asyncio.sleep(self.token_s * tokens)
        events = [{"choices": [{"text": word}]} for word in words]
        events.append({"choices": [], "usage": usage})
        data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        data += b"data: [DONE]\n\n"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(data)}\r\n\r\n"
        return writer.write(head.encode() + data)


def record(word):
    """A token with its runner-up, two nats behind."""
    tops = [{"token": word, "logprob": -0.1}, {"token": " other", "logprob": -2.1}]
    return {"token": word, "logprob": -0.1, "top_logprobs": tops}


def plain(writer, status, data):
    body = json.dumps(data).encode()
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def main():
    given = options()
    if given.pids:
        with open(given.pids, "a") as file:
            file.write(f"{os.getpid()}\n")
    if given.fail == "exit":
        sys.exit("cannot load the model")
    if given.fail == "hang":
        time.sleep(600)
    server = await asyncio.start_server(Server(given).serve, "127.0.0.1", given.port, limit=1 << 22)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
