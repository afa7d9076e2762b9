"""The scripted model over HTTP, with planted levers as a flag. It imports nothing of the product.

`python scripted_server.py --port N --planted off|NAME`: completions with log-probabilities, streamed
or whole. NAME is one of `planted_levers.ALL`; what it does to answers, speed and memory
happens in real time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parent))

import scripted_model as model
from planted_levers import ALL, Planted

TOKEN_S = 0.0004
OWN_NOISE = 0.003


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    planted: Planted | None = None
    answered = 0
    leaked: ClassVar[list[bytearray]] = []
    lock = threading.Lock()

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send({"status": "ok"})
        elif self.path == "/v1/models":
            self._send({"object": "list", "data": [{"id": "hashes", "object": "model"}]})
        elif self.path == "/props":
            name = "off" if self.planted is None else self.planted.name
            self._send({"settings": {"planted": name}})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, count = str(body["prompt"]), int(body.get("max_tokens", 16))
        if body.get("stream"):
            self._stream(prompt, count)
            return
        steps: list[model.Step] = []
        for _ in range(count):
            text = prompt + "".join(step.tokens[0] for step in steps)
            steps.append(model.step(model.context_of(text), OWN_NOISE, ("batch", "alone")))
        tokens = [step.tokens[0] for step in steps]
        logprobs = {
            "tokens": tokens,
            "token_logprobs": [step.logprobs[0] for step in steps],
            "top_logprobs": [dict(zip(step.tokens, step.logprobs, strict=True)) for step in steps],
            "text_offset": [0] * count,
        }
        choice = {
            "index": 0,
            "text": "".join(tokens),
            "finish_reason": "length",
            "logprobs": logprobs if body.get("logprobs") is not None else None,
        }
        self._send({"id": "1", "object": "text_completion", "choices": [choice],
                    "usage": {"prompt_tokens": 8, "completion_tokens": count, "total_tokens": 8 + count}})  # fmt: skip

    def _stream(self, prompt: str, count: int) -> None:
        planted = self.planted
        with self.lock:
            Handler.answered += 1
            before = Handler.answered
            if planted is not None and planted.memory:
                self.leaked.append(bytearray(int(planted.memory)))
        if planted is not None and planted.ends is not None and before > planted.ends:
            os._exit(1)
        said: Any = model.answer(prompt, count, OWN_NOISE, ("batch", before % 3))
        speed = 1.0
        if planted is not None:
            if planted.perturbation:
                said = model.answer(prompt, count, planted.perturbation, planted.name)
            if planted.garble is not None:
                said = planted.garble(prompt, said, before) or said
            speed = planted.speed * planted.later(before)
            if random.random() < planted.slow_share:
                time.sleep(0.3)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        # Tokens come in a few chunks: a sleep for each would measure the clock.
        chunk = max(len(said) // 4, 1)
        for at in range(0, len(said), chunk):
            part = said[at : at + chunk]
            time.sleep(len(part) * TOKEN_S * 10 / speed)
            self._event({"choices": [{"index": 0, "text": "".join(part), "finish_reason": None}]})
        self._event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        usage = {"prompt_tokens": 8, "completion_tokens": len(said), "total_tokens": 8 + len(said)}
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, data: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps({'id': '1', **data})}\n\n".encode())
        self.wfile.flush()

    def _send(self, data: dict[str, Any]) -> None:
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--planted", default="off")
    options = parser.parse_args()
    Handler.planted = next((one for one in ALL if one.name == options.planted), None)
    ThreadingHTTPServer.allow_reuse_address = True
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
