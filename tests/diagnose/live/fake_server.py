"""An OpenAI-compatible server whose times and metrics are known, in a thread of the test."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="m"}} {running}
vllm:cache_config_info{{cache_dtype="auto",enable_prefix_caching="False"}} 1
vllm:num_requests_waiting{{model_name="m"}} {waiting}
vllm:kv_cache_usage_perc{{model_name="m"}} {kv}
vllm:num_preemptions_total{{model_name="m"}} {preemptions}
vllm:prompt_tokens_total{{model_name="m"}} {prompt_tokens}
vllm:generation_tokens_total{{model_name="m"}} {tokens}
vllm:prefix_cache_queries_total{{model_name="m"}} {queries}
vllm:prefix_cache_hits_total{{model_name="m"}} {hits}
vllm:request_queue_time_seconds_sum{{model_name="m"}} {queue_s}
vllm:request_queue_time_seconds_count{{model_name="m"}} {requests}
vllm:time_to_first_token_seconds_sum{{model_name="m"}} {ttft_s}
vllm:time_to_first_token_seconds_count{{model_name="m"}} {requests}
"""


@dataclass
class Behavior:
    """What the server does; a token is a word."""

    step_s: float = 0.004
    chunk: int = 1
    """Tokens of a chunk: more than one where it speculates."""
    prefill_s: float = 0.00002
    """For each token of a prompt, in which streams that run stand still."""
    has_prefix_cache: bool = False
    sends_usage: bool = True
    takes_ignore_eos: bool = True
    has_completions: bool = True
    has_metrics: bool = True
    says: str | None = None
    """A line that it sends instead of an answer."""
    key: str | None = None
    context: int = 4096
    grows: dict[str, float] = field(default_factory=dict)
    """What other requests add to the counters at each scrape."""
    gauges: dict[str, float] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)


class FakeServer:
    """Counters, and one lock that a prefill holds while streams wait."""

    def __init__(self, behavior: Behavior) -> None:
        self.behavior = behavior
        self.counters = dict.fromkeys(
            ("preemptions", "prompt_tokens", "tokens", "queries", "hits", "queue_s", "ttft_s",
             "requests"), 0.0,
        )  # fmt: skip
        self.device = threading.Lock()
        self.seen: set[str] = set()

    def metrics(self) -> str:
        for name, amount in self.behavior.grows.items():
            self.counters[name] += amount
        gauges = {"running": 0.0, "waiting": 0.0, "kv": 0.1} | self.behavior.gauges
        return VLLM.format(**self.counters, **gauges)

    def stream(self, prompt: str, tokens: int) -> Iterator[tuple[str, int]]:
        """Chunks of text with how many tokens each has."""
        count = len(prompt.split())
        known = self.behavior.has_prefix_cache and prompt in self.seen
        with self.device:
            time.sleep(0.0 if known else count * self.behavior.prefill_s)
        self.seen.add(prompt)
        self.counters["prompt_tokens"] += count
        made = 0
        while made < tokens:
            size = min(self.behavior.chunk, tokens - made)
            with self.device:
                pass
            time.sleep(self.behavior.step_s)
            made += size
            self.counters["tokens"] += size
            yield "word " * size, size


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    behavior = server.behavior

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def send(self, status: int, body: str, kind: str = "application/json") -> None:
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            if self.path == "/metrics" and behavior.has_metrics:
                self.send(200, server.metrics(), "text/plain")
            elif self.path == "/v1/models":
                if behavior.key and self.headers["Authorization"] != f"Bearer {behavior.key}":
                    self.send(401, '{"error": {"message": "no key"}}')
                    return
                card = {"id": "m", "root": "llama-3.1-8b", "max_model_len": behavior.context}
                self.send(200, json.dumps({"data": [card]}))
            else:
                self.send(404, "{}")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            behavior.bodies.append(body)
            chat = self.path == "/v1/chat/completions"
            if not chat and not (self.path == "/v1/completions" and behavior.has_completions):
                self.send(404, "{}")
                return
            if "ignore_eos" in body and not behavior.takes_ignore_eos:
                self.send(400, '{"error": {"message": "unknown field ignore_eos"}}')
                return
            prompt = body["messages"][0]["content"] if chat else body["prompt"]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            if behavior.says is not None:
                self.wfile.write(behavior.says.encode() + b"\n\n")
                return
            made = 0
            for text, size in server.stream(prompt, body["max_tokens"]):
                choice = {"delta": {"content": text}} if chat else {"text": text}
                try:
                    self.event({"choices": [choice]})
                except ConnectionError:
                    # The client left.
                    return
                made += size
            if behavior.sends_usage:
                usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": made}
                self.event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def event(self, data: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")
            self.wfile.flush()

    return Handler


@contextmanager
def fake_server(behavior: Behavior | None = None) -> Iterator[str]:
    """The address of a server that behaves so, until the block ends."""
    fake = FakeServer(behavior or Behavior())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    # Closing waits for every answer under way, so that no socket is left to the collector.
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
