"""A llama.cpp server over the package `xllamacpp`, which has the server but no program of its own.

`python -m assay.improve.engines.llama_cpp_server --model FILE --port PORT`: the flags are those of
llama.cpp's own `llama-server`, as far as they are listed by --help.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_CACHE_TYPES: Final = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_FLASH_ATTENTION: Final = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
_LOAD_MODES: Final = {
    "auto": "AUTO", "none": "NONE", "mmap": "MMAP", "mlock": "MLOCK", "mmap+mlock": "MMAP_MLOCK",
    "dio": "DIRECT_IO",
}  # fmt: skip
_DRAFTS: Final = ("none", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod")
_NUMA: Final = ("distribute", "isolate", "numactl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = _parser().parse_args(arguments)
    try:
        import xllamacpp
    except ModuleNotFoundError:
        sys.stderr.write(
            "error: xllamacpp is needed and not installed\n"
            "hint: pip install 'assay[llama-cpp]'; or run llama-server, whose flags are the same\n"
        )
        return 2
    if not options.model.is_file():
        sys.stderr.write(f"error: argument --model: expected a GGUF file, got {options.model}\n")
        return 2
    server = xllamacpp.Server(_parameters(xllamacpp, options))
    stopped = threading.Event()
    # Only now: a signal ends a server that still loads at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    sys.stderr.write(f"serving {options.model} at {server.listening_address}\n")
    sys.stderr.flush()
    stopped.wait()
    # The destructor of the server waits for ever where its loop has only just begun.
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m assay.improve.engines.llama_cpp_server",
        description="A llama.cpp server from the package xllamacpp.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-m", "--model", type=Path, required=True, help="GGUF file")
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=8080, help="port to listen on")
    add("-a", "--alias", help="name of the model in the API")
    add("--api-key", help="key that clients must send")
    add("-c", "--ctx-size", type=int, default=0, help="tokens of context; 0 is the model's")
    add("-t", "--threads", type=int, default=-1, help="threads of a decode step")
    add("-tb", "--threads-batch", type=int, default=-1, help="threads of prefill and batches")
    add("-b", "--batch-size", type=int, default=2048, help="logical batch, tokens")
    add("-ub", "--ubatch-size", type=int, default=512, help="physical batch, tokens")
    # llama-server picks four slots and a unified cache where nothing is given.
    add("-np", "--parallel", type=int, help="slots; 4 with a unified KV cache if not given")
    add("-ctk", "--cache-type-k", choices=_CACHE_TYPES, default="f16", help="type of keys")
    add("-ctv", "--cache-type-v", choices=_CACHE_TYPES, default="f16", help="type of values")
    add("-fa", "--flash-attn", choices=_FLASH_ATTENTION, default="auto", help="FlashAttention")
    add("--load-mode", choices=_LOAD_MODES, default="auto", help="how weights get into memory")
    add("--spec-type", choices=_DRAFTS, default="none", help="drafts without a second model")
    add("--numa", choices=_NUMA, help="placement on NUMA machines")
    add("--poll", type=int, default=50, choices=range(101), metavar="0..100", help="polling level")
    add("--prio", type=int, default=0, choices=range(-1, 4), help="priority of threads")
    add("-ngl", "--gpu-layers", type=int, default=-1, help="layers on the GPU")
    add("--cache-reuse", type=int, default=0, help="shortest chunk reused by shifting")
    add("--cache-ram", type=int, default=8192, help="MiB for prompts of ended requests")
    for name, default, meaning in (
        ("cont-batching", True, "continuous batching"),
        ("kv-unified", None, "one KV cache for all slots"),
        ("repack", True, "repack weights for the processor"),
        ("cache-prompt", True, "reuse prompts in slots"),
        ("warmup", True, "run once before serving"),
    ):
        add(f"--{name}", action=argparse.BooleanOptionalAction, default=default, help=meaning)
    add("--metrics", action="store_true", help="serve /metrics")
    add("--props", action="store_true", help="let /props be changed")
    add("-lv", "--log-verbosity", type=int, default=3, help="verbosity of the log")
    return parser


def _parameters(xllamacpp: Any, options: argparse.Namespace) -> Any:
    """The options as parameters of the package."""

    def member(enumeration: str, prefix: str, name: str) -> Any:
        return getattr(xllamacpp, enumeration)[f"{prefix}_{name.upper().replace('-', '_')}"]

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.hostnames = [options.host]
    params.port = options.port
    if options.alias:
        params.model_alias = {options.alias}
    if options.api_key:
        params.api_keys = [options.api_key]
    params.n_ctx = options.ctx_size
    params.cpuparams.n_threads = options.threads
    batch_threads = options.threads_batch if options.threads_batch > 0 else options.threads
    params.cpuparams_batch.n_threads = batch_threads
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.poll = options.poll
        threads.priority = xllamacpp.ggml_sched_priority(options.prio)
    params.n_batch, params.n_ubatch = options.batch_size, options.ubatch_size
    params.n_parallel = options.parallel or 4
    unified = options.parallel is None if options.kv_unified is None else options.kv_unified
    params.kv_unified = unified
    params.cache_type_k = member("ggml_type", "GGML_TYPE", options.cache_type_k)
    params.cache_type_v = member("ggml_type", "GGML_TYPE", options.cache_type_v)
    params.flash_attn_type = member(
        "llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE", _FLASH_ATTENTION[options.flash_attn]
    )
    params.load_mode = member("llama_load_mode", "LLAMA_LOAD_MODE", _LOAD_MODES[options.load_mode])
    drafts = member("common_speculative_type", "COMMON_SPECULATIVE_TYPE", options.spec_type)
    params.speculative.types = [drafts]
    if options.numa:
        params.numa = member("ggml_numa_strategy", "GGML_NUMA_STRATEGY", options.numa)
    params.n_gpu_layers = options.gpu_layers
    params.n_cache_reuse, params.cache_ram_mib = options.cache_reuse, options.cache_ram
    params.cont_batching, params.no_extra_bufts = options.cont_batching, not options.repack
    params.cache_prompt, params.warmup = options.cache_prompt, options.warmup
    params.endpoint_metrics, params.endpoint_props = options.metrics, options.props
    params.verbosity = options.log_verbosity
    params.ui = False
    return params


if __name__ == "__main__":
    sys.exit(main())
