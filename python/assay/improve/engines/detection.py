"""What kind of server answers at an address, or is started by a command."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from assay.http_client import ServerError
from assay.openai_api.address import ServerAddress
from assay.openai_api.exchange import exchange, exchange_json

_METRICS: Final = {"llamacpp:": "llama.cpp", "sglang:": "sglang"}
_LAUNCHER: Final = "llama_cpp_server"
_OWNERS: Final = {
    "vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "tensorrt-llm", "llamacpp": "llama.cpp",
}  # fmt: skip
"""What servers say owns their models."""


def of_command(words: Sequence[str]) -> str | None:
    """The adapter of the server that a command starts; None where it cannot be told.

    >>> of_command(["/usr/local/bin/llama-server", "-m", "m.gguf"]), of_command(["vllm", "serve", "m"])
    ('llama.cpp', 'vllm')
    """
    names = [PurePath(word).name for word in words]
    if any(name == "llama-server" or name.endswith(_LAUNCHER) for name in names):
        return "llama.cpp"
    if any(name == "vllm" or name.startswith("vllm.entrypoints") for name in names):
        return "vllm"
    if any(name in ("sglang", "sglang.launch_server") for name in names):
        return "sglang"
    if "trtllm-serve" in names:
        return "tensorrt-llm"
    pairs = itertools.pairwise(names)
    return "assay" if ("assay", "serve") in pairs else None


def of_server(address: ServerAddress) -> str | None:
    """The adapter of the server that answers; None where it cannot be told."""
    info = _json(address, "/server_info")
    if isinstance(info, dict) and info.get("engine") == "assay":
        return "assay"
    if isinstance(info, dict) and "vllm_config" in info:
        return "vllm"
    listed = _json(address, "/v1/models")
    models = listed.get("data") if isinstance(listed, dict) else None
    if isinstance(models, list):
        owners = {model.get("owned_by") for model in models if isinstance(model, dict)}
        if server := next((name for owner, name in _OWNERS.items() if owner in owners), None):
            return server
    try:
        text = exchange(address, "/metrics", timeout_s=10.0).decode("utf-8", "replace")
    except ServerError:
        return None
    return next((name for prefix, name in _METRICS.items() if prefix in text), None)


def _json(address: ServerAddress, path: str) -> Any:
    try:
        return exchange_json(address, path, timeout_s=10.0)
    except ServerError:
        return None
