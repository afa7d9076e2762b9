"""`vllm serve` without vLLM: its flags, log lines, health, development paths, metrics and profiler.

Flags are the fields of the `vllm` package that is importable, which tests make one shaped like a
release. A token takes EAGER_S with eager launches and GRAPHS_S with CUDA graphs. Standard library only.
"""

import argparse
import dataclasses
import json
import os
import shutil
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

EAGER_S, GRAPHS_S = 0.006, 0.002
MODEL_BYTES = 0.95
"""Largest share of the memory that is free at start."""
KV_GIB = 100
PLACES = threading.Semaphore(int(os.environ.get("FAKE_VLLM_AT_ONCE", "1000")))
"""Requests that are answered at once; others wait."""
SLOWER = float(os.environ.get("FAKE_VLLM_SLOWER", "1"))


def options():
    from vllm.engine.arg_utils import EngineArgs

    parser = argparse.ArgumentParser(prog="vllm", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    serve = commands.add_parser("serve", allow_abbrev=False)
    serve.add_argument("model")
    serve.add_argument("--host")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--disable-uvicorn-access-log", action="store_true")
    for field in dataclasses.fields(EngineArgs):
        if field.name.startswith("_") or field.name == "model":
            continue
        flag = f"--{field.name.replace('_', '-')}"
        if "bool" in str(field.type):
            serve.add_argument(flag, action=argparse.BooleanOptionalAction)
        else:
            kinds = {"int": int, "float": float}
            kind = next((kinds[one] for one in kinds if one in str(field.type)), str)
            if "Literal" in str(field.type):
                kind = str
            serve.add_argument(flag, type=kind)
    return parser.parse_args()


def resolved(given):
    """What a release makes of its arguments: defaults that follow from others."""
    eager = bool(given.enforce_eager)
    return {
        "model_config": {
            "enforce_eager": eager,
            "quantization": given.quantization,
            "disable_cascade_attn": bool(given.disable_cascade_attn),
        },
        "scheduler_config": {
            "max_num_seqs": given.max_num_seqs or 256,
            "max_num_batched_tokens": given.max_num_batched_tokens or 8192,
            "enable_chunked_prefill": given.enable_chunked_prefill is not False,
            "long_prefill_token_threshold": given.long_prefill_token_threshold or 0,
            "async_scheduling": given.async_scheduling is not False,
            "policy": given.scheduling_policy or "fcfs",
        },
        "cache_config": {
            "enable_prefix_caching": given.enable_prefix_caching is not False,
            "block_size": given.block_size or 16,
            "gpu_memory_utilization": given.gpu_memory_utilization or 0.92,
            "cache_dtype": given.kv_cache_dtype or "auto",
        },
        "compilation_config": {
            "max_cudagraph_capture_size": 0 if eager else given.max_cudagraph_capture_size or 512
        },
        "optimization_level": given.optimization_level or (0 if eager else 2),
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A write of a few bytes must not wait for the acknowledgment of the one before it.
    disable_nagle_algorithm = True
    given = argparse.Namespace()
    config = {}  # noqa: RUF012
    resets = 0
    asleep = False

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/health":
            self.answer(200)
        elif self.path == "/v1/models":
            root = self.given.model
            model = {"id": root, "owned_by": "vllm", "root": root, "max_model_len": 4096}
            self.answer(200, {"data": [model]})
        elif self.path.startswith("/server_info") and dev_mode():
            self.answer(200, {"vllm_config": self.config})
        elif self.path == "/metrics":
            stated = {**self.config["cache_config"], "num_gpu_blocks": KV_GIB * 512}
            labels = ",".join(f'{k}="{v}"' for k, v in stated.items())
            self.answer(200, text=f"vllm:cache_config_info{{{labels}}} 1.0\n")
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/v1/completions" and self.asleep:
            self.answer(503, {"detail": "asleep"})
        elif self.path == "/v1/completions":
            self.complete(json.loads(body))
        elif self.path == "/reset_prefix_cache" and dev_mode():
            Handler.resets += 1
            self.answer(200)
        elif self.path == "/start_profile":
            self.answer(200)
        elif self.path == "/sleep?level=1" and dev_mode() and self.given.enable_sleep_mode:
            Handler.asleep = True
            self.answer(200)
        elif self.path == "/wake_up" and dev_mode() and self.given.enable_sleep_mode:
            Handler.asleep = False
            self.answer(200)
        elif self.path == "/stop_profile":
            folder = Path(json.loads(self.given.profiler_config)["torch_profiler_dir"])
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.environ["FAKE_VLLM_TRACE"], folder / "rank0.pt.trace.json")
            self.answer(200)
        else:
            self.answer(404, {"detail": "Not Found"})

    def complete(self, body):
        count = body["max_tokens"]
        step_s = EAGER_S if self.config["model_config"]["enforce_eager"] else GRAPHS_S
        usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": count}
        if not body.get("stream"):
            ids = [len(body["prompt"]) + 7 * place for place in range(count)]
            texts = [f" w{one}" for one in ids]
            logprobs = {
                "tokens": texts,
                "token_logprobs": [-0.5] * count,
                "top_logprobs": [{one: -0.5, " other": -2.0} for one in texts],
            }
            choice = {"index": 0, "text": "".join(texts), "logprobs": logprobs}
            if body.get("return_token_ids"):
                choice["token_ids"] = ids
            self.answer(200, {"choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with PLACES:
            for _ in range(count):
                time.sleep(step_s * SLOWER)
                self.event({"choices": [{"index": 0, "text": " a", "finish_reason": None}]})
        self.event({"choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, data):
        self.chunk(f"data: {json.dumps(data)}\n\n".encode())

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, status, data=None, text=None):
        content = (text if text is not None else "" if data is None else json.dumps(data)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def dev_mode():
    return os.environ.get("VLLM_SERVER_DEV_MODE") == "1"


def main():
    import vllm

    given = options()
    config = resolved(given)
    sizes = {**config["model_config"], **config["cache_config"], **config["scheduler_config"]}
    stated = ", ".join(f"{name}={value}" for name, value in sizes.items())
    print(
        f"(EngineCore pid={os.getpid()}) INFO 11-16 17:00:00 [core.py:94] Initializing a V1 LLM engine "
        f"(v{vllm.__version__}) with config: model='{given.model}', {stated}",
        file=sys.stderr,
        flush=True,
    )
    asked = config["cache_config"]["gpu_memory_utilization"]
    if asked > MODEL_BYTES:
        raise ValueError(
            f"Free memory on device cuda:0 (132.00/139.80 GiB) on startup is less than desired GPU memory "
            f"utilization ({asked}, {asked * 139.8:.2f} GiB). Decrease GPU memory utilization or reduce "
            "GPU memory used by other processes."
        )
    print(f"INFO Available KV cache memory: {KV_GIB}.0 GiB", file=sys.stderr, flush=True)
    # As weights are read, kernels compiled and graphs captured.
    time.sleep(float(os.environ.get("FAKE_VLLM_START_S", "0")))
    Handler.given, Handler.config = given, config
    ThreadingHTTPServer((given.host or "127.0.0.1", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
