"""Engine, client and number formats of a serving case, read from its fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from assay.errors import InputError
from assay.validate.cases import Case

ENGINES = {
    "trtllm": ("trtllm", "tensorrt-llm", "tensorrt_llm", "tensorrt llm", "fastertransformer"),
    "vllm": ("vllm",),
    "sglang": ("sglang",),
}
"""Engines and their spellings in publications."""

_VERSIONS = {
    engine: re.compile(
        rf"(?:{'|'.join(map(re.escape, spellings))})[^0-9]{{0,20}}v?(\d{{1,9}}(?:\.\d{{1,9}})+)"
    )
    for engine, spellings in ENGINES.items()
}
_CLAUSE = re.compile("[,;]")
_8_BIT_CACHE = re.compile("(fp8|int8)[ _-]*kv")

DEFAULT_ENGINE = "vllm"
SHARED_KEYS_SINCE = (0, 8)
"""First TensorRT-LLM whose decode kernels read the keys of a GQA group once (XQA)."""

PUBLISHED_LENGTHS = {(1024, 1024), (1024, 8192), (8192, 1024)}
"""Input and output lengths of InferenceX, github.com/SemiAnalysisAI/InferenceX."""

MEAN_LENGTH = 0.9
"""InferenceX draws lengths uniformly between 0.8 and 1 of the nominal ones."""


@dataclass(frozen=True)
class Formats:
    """Number formats of weights, KV cache and compute."""

    compute_bits: int
    expert_bits: int
    weight_bytes: float
    expert_bytes: float
    kv_bytes: float


def text_of(case: Case) -> str:
    """All text of a case, in lower case."""
    parts = [str(value) for value in case.source.values()] + [case.notes]
    parts += [str(value) for value in case.inputs.values() if isinstance(value, str)]
    return " ".join(parts).lower()


def engine_of(case: Case) -> tuple[str, list[str]]:
    """The engine that a case names, or the default."""
    backend = str(case.inputs.get("backend") or case.inputs.get("framework") or "").lower()
    for text in (backend, text_of(case)):
        for engine, spellings in ENGINES.items():
            if any(spelling in text for spelling in spellings):
                return engine, []
    return DEFAULT_ENGINE, [f"no engine is named: {DEFAULT_ENGINE}"]


def version_of(case: Case, engine: str) -> tuple[int, ...]:
    """The engine's version as numbers; empty where none is stated."""
    stated = str(case.inputs.get("backend_version") or "")
    if not stated:
        found = _VERSIONS[engine].search(text_of(case))
        stated = found.group(1) if found else ""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", stated)[:3])


def shares_keys(case: Case, engine: str) -> bool:
    """Whether decode kernels read keys once for all query heads of a group."""
    if engine != "trtllm":
        return True
    if "fastertransformer" in text_of(case):
        return False
    version = version_of(case, engine)
    return not version or version >= SHARED_KEYS_SINCE


def client_of(case: Case) -> tuple[str, list[str]]:
    """The load generator: InferenceX, an unknown closed loop, or none (offline).

    Static batches and cases that name no server are offline.
    """
    inputs = case.inputs
    stated = str(inputs.get("client") or "").lower()
    if stated:
        return ("inferencex" if stated.startswith("inference") else "closed_loop"), []
    mode = str(inputs.get("mode") or "").lower()
    if "static" in mode or not (inputs.get("backend") or inputs.get("framework")):
        return "offline", []
    if (inputs.get("isl"), inputs.get("osl")) in PUBLISHED_LENGTHS:
        return "inferencex", ["lengths of InferenceX: its client, lengths 0.8 to 1 of the nominal"]
    return "closed_loop", ["the client is not stated: a closed loop"]


def _has_8_bit_cache(words: str) -> bool:
    """Whether a clause names an 8-bit KV cache, as in "fp8 kv" and "kv cache int8"."""
    for clause in _CLAUSE.split(words):
        _, cache, after = clause.partition("kv")
        if _8_BIT_CACHE.search(clause) or (cache and ("fp8" in after or "int8" in after)):
            return True
    return False


def formats_of(case: Case, engine: str, has_experts: bool, rates: dict[str, float]) -> Formats:
    """Number formats from the precision fields of a case."""
    words = " ".join(
        str(case.inputs.get(name) or "")
        for name in ("precision", "gemm_quant", "moe_quant", "weights", "dtype")
    ).lower()
    four = any(word in words for word in ("fp4", "int4", "w4", "awq", "gptq"))
    eight = any(word in words for word in ("fp8", "int8", "w8", "smoothquant"))
    weight_only = any(word in words for word in ("int4", "w4a16", "awq", "gptq", "_wo", "w8a16"))
    kv = 1.0 if _has_8_bit_cache(words) else 2.0
    if four:
        bits = 4 if rates["gpu.rate_4bit"] > rates["gpu.rate_8bit"] and not weight_only else 16
        # Four bits and a scale of 8 bits for each 16 elements.
        packed = 0.5625
        if has_experts:
            # Published 4-bit mixtures keep attention and shared parts in 16 bits.
            return Formats(16, bits, 2.0, packed, kv)
        return Formats(bits, bits, packed, packed, kv)
    if eight:
        bits = 8 if rates["gpu.rate_8bit"] > 1 and not weight_only else 16
        if engine == "trtllm":
            # NVIDIA's 8-bit checkpoints store keys in 8 bits too.
            kv = 1.0
        return Formats(bits, bits, 1.0, 1.0, kv)
    return Formats(16, 16, 2.0, 2.0, kv)


def parse_count(value: Any, otherwise: int = 1) -> int:
    """A count from a number or its text; `otherwise` for nothing or zero."""
    if value is None or value == "":
        return otherwise
    try:
        count = int(float(value))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"expected a count, got {value!r}") from None
    return count if count >= 1 else otherwise
