"""`sglang serve` and `trtllm-serve` without either: their flags, paths and log lines.

Started by the name of the one that it stands for. SGLang states its arguments at /server_info, TensorRT-LLM
in its log, as pydantic writes them. Standard library only.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SGLANG = {
    "disable_cuda_graph": False, "cuda_graph_max_bs": 160, "enable_torch_compile": False,
    "max_running_requests": 2048, "chunked_prefill_size": 8192, "max_prefill_tokens": 16384,
    "enable_mixed_chunk": False, "schedule_policy": "fcfs", "schedule_conservativeness": 1.0,
    "disable_overlap_schedule": False, "num_continuous_decode_steps": 1, "stream_interval": 1,
    "disable_radix_cache": False, "page_size": 1, "mem_fraction_static": 0.88,
    "kv_cache_dtype": "auto", "quantization": None, "attention_backend": "fa3",
    "sampling_backend": "flashinfer", "moe_runner_backend": "auto", "moe_a2a_backend": "none",
    "tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1, "enable_dp_attention": False,
    "enable_two_batch_overlap": False, "enable_eplb": False, "disable_custom_all_reduce": False,
    "speculative_algorithm": None, "speculative_num_draft_tokens": None,
}  # fmt: skip
"""ServerArgs as a start on one GPU resolves them."""
TENSORRT_LLM = {
    "backend": "pytorch", "tensor_parallel_size": 1, "pipeline_parallel_size": 1,
    "moe_expert_parallel_size": None, "enable_chunked_prefill": False,
    "num_postprocess_workers": 0, "free_gpu_memory_fraction": 0.9, "max_batch_size": 2048,
    "max_num_tokens": 8192,
}  # fmt: skip
TOKEN_S = 0.001


def parsed(words, known):
    """Flags as the real programs take them; the last mention counts."""
    values, rest = dict(known), iter(words)
    own = {"port": 8000, "model_path": "m"}
    for word in rest:
        if not word.startswith("-"):
            continue
        name = word.removeprefix("--").replace("-", "_")
        if name in own:
            own[name] = next(rest)
        elif name not in known:
            print(f"fake: error: unrecognized arguments: {word}", file=sys.stderr)
            print(f"Error: No such option: {word}", file=sys.stderr)
            sys.exit(2)
        elif isinstance(known[name], bool):
            values[name] = True
        else:
            kind = type(known[name]) if known[name] is not None else str
            values[name] = kind(next(rest))
    return values, own


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    is_sglang = True
    values = {}  # noqa: RUF012
    flushes = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        owner = "sglang" if self.is_sglang else "tensorrt_llm"
        answers = {
            "/health": {},
            "/v1/models": {"data": [{"id": "m", "owned_by": owner, "max_model_len": 4096}]},
        }
        if self.is_sglang:
            stated = {**self.values, "version": "0.5.9", "flushes": Handler.flushes}
            answers["/server_info"] = stated
        else:
            answers["/version"] = {"version": "1.2.0"}
        self.answer(answers.get(self.path))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/flush_cache" and self.is_sglang:
            Handler.flushes += 1
            self.answer({})
        elif self.path == "/v1/completions":
            self.complete(json.loads(body))
        else:
            self.answer(None)

    def complete(self, body):
        count = body["max_tokens"]
        usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": count}
        if not body.get("stream"):
            words = [f" w{len(body['prompt']) + place}" for place in range(count)]
            logprobs = {
                "tokens": words,
                "token_logprobs": [-0.5] * count,
                "top_logprobs": [{word: -0.5, " other": -2.0} for word in words],
            }
            choice = {"index": 0, "text": "".join(words), "logprobs": logprobs}
            self.answer({"choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(count):
            time.sleep(TOKEN_S)
            self.event({"choices": [{"index": 0, "text": " a", "finish_reason": None}]})
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, data):
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def answer(self, data):
        content = json.dumps({"detail": "Not Found"} if data is None else data).encode()
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def llm_args(values):
    """The line of TensorRT-LLM's log, as pydantic writes a model with others in it."""
    share = values["free_gpu_memory_fraction"]
    outer = {name: value for name, value in values.items() if name != "free_gpu_memory_fraction"}
    text = " ".join(f"{name}={value!r}" for name, value in outer.items())
    return (
        f"model='m' tokenizer=None kv_cache_config=KvCacheConfig(enable_block_reuse=True, "
        f"max_tokens=None, free_gpu_memory_fraction={share}, dtype='auto') {text} "
        "cuda_graph_config=CudaGraphConfig(batch_sizes=None, max_batch_size=128) stream_interval=1"
    )


def main():
    is_sglang = Path(sys.argv[0]).name == "sglang"
    values, own = parsed(sys.argv[1:], SGLANG if is_sglang else TENSORRT_LLM)
    Handler.is_sglang, Handler.values = is_sglang, values
    if not is_sglang:
        print(f"[11/18/2026-01:00:00] [TRT-LLM] [I] LLM Args:\n{llm_args(values)}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", int(own["port"])), Handler).serve_forever()


if __name__ == "__main__":
    main()
