"""A server that looks like llama.cpp's, with switches for what goes wrong; standard library only.

It prints the lines that llama.cpp prints at verbosity 4, and serves /health, /props and completions.
--fail crash|oom|refused|hang|slow at start; crash-later and hang-later after two completions.
"""

import argparse
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def options():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add = parser.add_argument
    add("--port", type=int, required=True)
    add("--threads", type=int, default=2)
    add("--threads-batch", type=int)
    add("--batch-size", type=int, default=2048)
    add("--ubatch-size", type=int, default=512)
    add("--parallel", type=int, default=4)
    add("--poll", type=int, default=50)
    add("--load-mode", default="mmap")
    add("--kv-unified", action="store_true")
    add("--flash-attn", choices=("on", "off", "auto"), default="auto")
    add("--cache-type-k", default="f16")
    add("--cache-type-v", default="f16")
    add("--spec-type", default="none")
    add("--metrics", action="store_true")
    add("--log-verbosity", type=int)
    add("--fail-with-threads", type=int)
    add("--fail", default="")
    add("--lies", action="store_true")
    return parser.parse_args()


OPTIONS = argparse.Namespace()
FAIL = ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    completions = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        if FAIL == "hang-later" and Handler.completions >= 2:
            time.sleep(600)
        said = {
            "/health": {"status": "ok"},
            "/props": {"total_slots": OPTIONS.parallel, "build_info": "b9999-fake"},
            "/v1/models": {
                "data": [{"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 99}}]
            },
        }.get(self.path)
        self.answer(404 if said is None else 200, said or {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Handler.completions += 1
        if Handler.completions > 2 and FAIL == "crash-later":
            os._exit(3)
        if Handler.completions > 2 and FAIL == "hang-later":
            time.sleep(600)
        count = body["max_tokens"]
        say(f"cache_prompt {body.get('cache_prompt')}")
        usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": count}
        if not body.get("stream"):
            tops = [
                {"id": 7, "token": " a", "logprob": -0.5},
                {"id": 8, "token": " b", "logprob": -2},
            ]
            content = [{"id": 7, "token": " a", "logprob": -0.5, "top_logprobs": tops}] * count
            choice = {"text": " a" * count, "logprobs": {"content": content}}
            self.answer(200, {"choices": [choice], "usage": usage})
            return
        events = [{"choices": [{"text": " a"}]} for _ in range(count)]
        events.append({"choices": [], "usage": usage})
        data = b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in events)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data) + 14))
        self.end_headers()
        self.wfile.write(data + b"data: [DONE]\n\n")

    def answer(self, status, data):
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def say(text):
    print(f"0.00.650.3 I {text}", file=sys.stderr, flush=True)


def main() -> None:
    global OPTIONS, FAIL
    OPTIONS = options()
    applies = OPTIONS.fail_with_threads in (None, OPTIONS.threads)
    FAIL = OPTIONS.fail if applies else ""
    if FAIL == "crash":
        say("GGML_ASSERT failed")
        os.abort()
    if FAIL == "oom":
        say("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 9999")
        sys.exit(1)
    if FAIL == "killed":
        os.kill(os.getpid(), 9)
    if FAIL == "hang":
        time.sleep(600)
    threads = 1 if OPTIONS.lies else OPTIONS.threads
    batch = OPTIONS.threads_batch or threads
    flash = {"on": "enabled", "off": "disabled", "auto": "auto"}[OPTIONS.flash_attn]
    say(
        f"cmn: system_info: n_threads = {threads} (n_threads_batch = {batch}) / 2 | CPU : SSE3 = 1 |"
    )
    say(
        f"load_tensors: loading model tensors, this can take a while... (load_mode = {OPTIONS.load_mode})"
    )
    say(f"llama_context: n_batch               = {OPTIONS.batch_size}")
    say(f"llama_context: n_ubatch              = {OPTIONS.ubatch_size}")
    say(f"llama_context: flash_attn            = {flash}")
    say(f"llama_context: kv_unified            = {str(OPTIONS.kv_unified).lower()}")
    say(
        "llama_kv_cache: size =  137.81 MiB (  2048 cells,  30 layers,  4/4 seqs), "
        f"K ({OPTIONS.cache_type_k}):   47.81 MiB, V ({OPTIONS.cache_type_v}):   90.00 MiB"
    )
    drafts = OPTIONS.spec_type
    if drafts == "none":
        say("spec common_specu: no implementations specified for speculative decoding")
    else:
        say(f"spec common_specu: adding speculative implementation '{drafts}'")
    ThreadingHTTPServer(("127.0.0.1", OPTIONS.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
