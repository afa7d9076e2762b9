"""Options of llama.cpp, vLLM and Ollama: those that mean the same here work, others are refused by name.

They are rewritten before the command line is parsed, so that no help text lists them.
"""

from collections.abc import Sequence
from typing import Final

from assay.cli.output import show_note
from assay.errors import InputError

_GENERATING: Final = ("generate", "chat", "serve")

_RENAMED: Final = {
    **dict.fromkeys(("-n", "--n-predict", "--predict", "--num-predict"), "--max-tokens"),
    "--temp": "--temperature",
    "--repeat-penalty": "--repetition-penalty",
    "-s": "--seed",
    "-p": "--prompt",
    "-f": "--file",
    **dict.fromkeys(("-sys", "--system-prompt"), "--system"),
    **dict.fromkeys(("-r", "--reverse-prompt"), "--stop"),
    "-j": "--json-schema",
    "-t": "--threads",
    **dict.fromkeys(("-c", "--ctx-size", "--num-ctx"), "--kv-tokens"),
    "--chat-template-file": "--chat-template",
    **dict.fromkeys(("--served-model-name", "-a", "--alias"), "--name"),
    "--lora-modules": "--lora",
    "--lora-path": "--lora",
    "--allowed-origins": "--allowed-origin",
    "--disable-log-requests": "--no-access-log",
    "--timeout-graceful-shutdown": "--drain",
}
"""Other names of options, where the command has them."""

_KNOBS: Final = {
    **dict.fromkeys(("--max-num-seqs", "-np", "--parallel"), "max_batch"),
    **dict.fromkeys(("--max-num-batched-tokens", "-b", "--batch-size"), "token_budget"),
    "--block-size": "block_tokens",
    "--scheduling-policy": "policy",
    **dict.fromkeys(("--kv-cache-dtype", "-ctk", "--cache-type-k"), "kv_format"),
    **dict.fromkeys(("--num-speculative-tokens", "--draft-max", "--draft"), "speculation_depth"),
    **dict.fromkeys(("--model-draft", "-md"), "draft_model"),
}
"""Options that are knobs here."""

_KNOB_VALUES: Final = {
    "kv_format": {"fp8_e4m3": "fp8", "bfloat16": "bf16", "q8_0": "int8", "f16": "bf16"}
}
"""What others call the values of knobs."""

_ALWAYS: Final = frozenset(
    {
        *("--enable-prefix-caching", "--enable-chunked-prefill", "--enable-auto-tool-choice"),
        *("-cb", "--cont-batching", "--jinja", "--embedding", "--embeddings", "--reranking"),
        *("--enable-lora", "-cnv", "--conversation", "-i", "--interactive", "-st", "--single-turn"),
        *("--no-display-prompt", "--color", "--simple-io", "--no-warmup", "--metrics", "--slots"),
        *("--nowordwrap", "--mmap", "--disable-log-stats"),
    }
)
"""Flags that ask for what is so anyway."""

_MODEL: Final = ("-m", "--model", "-hf", "--hf-repo", "--model-path")

_REFUSED: Final = {
    **dict.fromkeys(
        ("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size",
         "-dp", "-ts", "--tensor-split", "-sm", "--split-mode", "--distributed-executor-backend"),
        "a model is served by one GPU; assay predict compares layouts of several",
    ),
    **dict.fromkeys(
        ("-ngl", "--gpu-layers", "--n-gpu-layers", "--cpu-offload-gb", "--num-gpu"),
        "--device chooses; --knob offload_layers=N keeps the last N layers in host memory",
    ),
    "--gpu-memory-utilization": "the KV cache takes what is free of 90 %; --kv-tokens sets its size",
    "--swap-space": "requests that are preempted are computed again; --kv-tokens sets the KV cache",
    "--quantization": "the format is that of the files; --knob weight_format=fp8 quantizes at load",
    "--dtype": "the format is that of the files; --knob weight_format=bf16 converts at load",
    "--load-format": "GGUF files and safetensors are recognized",
    "--tokenizer": "the tokenizer is that of the model's files",
    "--trust-remote-code": "code of a repository is never run; leave it out",
    "--enforce-eager": "--knob graph_buckets=0 runs without graphs",
    "--max-lora-rank": "ranks are read from the adapters; leave it out",
    "--max-loras": "all adapters are loaded; leave it out",
    "--speculative-config": "--knob speculation_method=ngram --knob speculation_depth=4",
    **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile", "--ssl-key-file", "--ssl-cert-file"),
                    "put a proxy that speaks TLS before the server"),
    **dict.fromkeys(("--mlock", "--no-mmap", "--numa"), "weights are copied from the mapped files"),
    **dict.fromkeys(("-fa", "--flash-attn"), "attention is always fused; leave it out"),
    "--mmproj": "models here read text only",
    "--grammar": "--json-schema constrains the output; the server takes grammars in a request",
    "--grammar-file": "--json-schema constrains the output; the server takes grammars in a request",
    "--format": "--json-schema SCHEMA constrains the output to JSON",
    "--think": """--chat-template-kwargs '{"enable_thinking": true}'""",
    "--reasoning-effort": """--chat-template-kwargs '{"reasoning_effort": "low"}'""",
    **dict.fromkeys(("--keepalive", "--keep-alive"), "a model stays loaded until its server ends"),
    **dict.fromkeys(
        ("--mirostat", "--typical", "--xtc-probability", "--xtc-threshold", "--dry-multiplier",
         "--top-n-sigma", "--dynatemp-range", "--samplers"),
        "sampling has temperature, top-k, top-p, min-p and penalties",
    ),
    "--lora-scaled": "--lora applies an adapter at the scale that it states",
    "--log-disable": "--quiet prints errors only",
}  # fmt: skip
"""Options that have no equal here, and what to do instead."""


def translate(command: str, arguments: Sequence[str], known: Sequence[str]) -> list[str]:
    """The arguments with foreign options rewritten; `known` are the command's own, which stay."""
    if command not in _GENERATING:
        return list(arguments)
    words = list(arguments)
    rewritten: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return [*rewritten, word, *words]
        name, equals, value = word.partition("=")
        if name in known or not name.startswith("-"):
            rewritten.append(word)
        elif name in _RENAMED and _RENAMED[name] in known:
            rewritten += [_RENAMED[name] + equals + value]
        elif name in _ALWAYS:
            show_note(f"{name}: it is always so")
        elif name in _KNOBS or name in _MODEL:
            if not equals:
                if not words:
                    raise InputError(f"{name}: expected a value, got none")
                value = words.pop(0)
            rewritten += [value] if name in _MODEL else _knobs(name, value)
        elif name in _REFUSED:
            if (equals and value == "1") or (words[:1] == ["1"] and "parallel-size" in name):
                # One GPU is what there is.
                del words[: not equals]
                continue
            raise InputError(f'option "{name}" of assay {command}: not supported', _REFUSED[name])
        else:
            rewritten.append(word)
    return rewritten


def _knobs(name: str, value: str) -> list[str]:
    knob = _KNOBS[name]
    if knob == "kv_format" and value == "auto":
        return []
    value = _KNOB_VALUES.get(knob, {}).get(value, value)
    method = ["--knob", "speculation_method=draft_model"] if knob == "draft_model" else []
    return [*method, "--knob", f"{knob}={value}"]
