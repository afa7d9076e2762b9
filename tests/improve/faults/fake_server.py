"""A small OpenAI-compatible server with knobs and switches for faults; starts in well under a second.

`python fake_server.py --port N --state FOLDER --threads 1 --batch 8 --cache f16`. It writes its
configuration to FOLDER/configuration.json when it serves. FOLDER/faults.json makes it misbehave:
`{"threads": {"4": "crash"}}` is what happens in a server that was started with four threads.
Faults: crash (at start), oom (at start, says so), hang-start, slow-start, crash-later, hang-later,
wrong (answers other tokens), lies (states one thread, whatever it has). While FOLDER/slow exists,
more than one thread is slower than one.
"""

import argparse
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WORDS = ["the", "sum", "of", "all", "parts", "is", "more", "than", "each", "one"]
LATER = 3
"""Requests that a server answers before a later fault."""
SLOW_START_S = 1.5


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    settings: dict[str, Any]
    fault: str
    state: Path
    answered = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            if self.fault == "hang-later" and Handler.answered >= LATER:
                time.sleep(3600)
            self._send({"status": "ok"})
        elif self.path == "/v1/models":
            self._send({"object": "list", "data": [{"id": "fake", "object": "model"}]})
        elif self.path == "/props":
            lies = {"threads": 1} if self.fault == "lies" else {}
            self._send({"settings": {**self.settings, **lies}})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.answered += 1
        if Handler.answered > LATER and self.fault == "crash-later":
            os._exit(1)
        if Handler.answered > LATER and self.fault == "hang-later":
            time.sleep(3600)
        count = int(body.get("max_tokens", 4))
        first = 3 if self.fault == "wrong" else 0
        tokens = [f" {WORDS[(first + place) % len(WORDS)]}" for place in range(count)]
        delay = 0.004 / int(self.settings["threads"])
        if self.settings["threads"] > 1 and (self.state / "slow").exists():
            delay = 0.02
        prompt = str(body.get("prompt", ""))
        usage = {
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": count,
            "total_tokens": len(prompt.split()) + count,
        }
        if body.get("stream"):
            self._stream(tokens, delay, usage)
            return
        time.sleep(delay * count)
        logprobs = {
            "tokens": tokens,
            "token_logprobs": [-0.1] * count,
            "top_logprobs": [{token: -0.1, " zzz": -3.0} for token in tokens],
            "text_offset": [0] * count,
        }
        choice = {
            "index": 0,
            "text": "".join(tokens),
            "finish_reason": "length",
            "logprobs": logprobs if body.get("logprobs") is not None else None,
        }
        self._send({"id": "1", "object": "text_completion", "choices": [choice], "usage": usage})

    def _stream(self, tokens: list[str], delay: float, usage: dict[str, int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for token in tokens:
            time.sleep(delay)
            choice = {"index": 0, "text": token, "finish_reason": None}
            self._event({"choices": [choice]})
        self._event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, data: dict[str, Any]) -> None:
        data = {"id": "1", "object": "text_completion", "model": "fake", **data}
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def _send(self, data: dict[str, Any]) -> None:
        content = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def chosen_fault(folder: Path, settings: dict[str, Any]) -> str:
    path = folder / "faults.json"
    faults = json.loads(path.read_text()) if path.is_file() else {}
    for knob, values in faults.items():
        if found := values.get(str(settings[knob])):
            return str(found)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--cache", default="f16")
    options = parser.parse_args()
    names = ("threads", "batch", "cache")
    settings = {name: getattr(options, name) for name in names}
    fault = chosen_fault(options.state, settings)
    if fault == "crash":
        sys.exit("fatal: illegal instruction")
    if fault == "oom":
        sys.exit("CUDA out of memory. Tried to allocate 2.00 GiB")
    if fault == "hang-start":
        time.sleep(3600)
    if fault == "slow-start":
        time.sleep(SLOW_START_S)
    Handler.settings, Handler.fault, Handler.state = settings, fault, options.state
    ThreadingHTTPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    path = options.state / "configuration.json"
    path.with_suffix(".part").write_text(json.dumps({"pid": os.getpid(), "settings": settings}))
    path.with_suffix(".part").rename(path)
    server.serve_forever()


if __name__ == "__main__":
    main()
