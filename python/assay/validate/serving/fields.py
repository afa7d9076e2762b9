"""Engine, client and number formats of a serving case, read from its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.catalog import checkpoint_formats, expert_formats
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
_DIGITS = re.compile(r"\d{1,9}")
_NO_RELEASE = 4
_CLAUSE = re.compile("[,;]")
_WEIGHT_ONLY = ("int4", "w4a16", "awq", "gptq", "_wo", "w8a16")
_8_BIT_CACHE = re.compile("(fp8|int8)[ _-]*kv")

DEFAULT_ENGINE = "vllm"
SHARED_KEYS_SINCE = (0, 8)
"""First TensorRT-LLM whose decode kernels read the keys of a GQA group once (XQA)."""

PUBLISHED_LENGTHS = {(1024, 1024), (1024, 8192), (8192, 1024)}
"""Input and output lengths of InferenceX, github.com/SemiAnalysisAI/InferenceX."""

MEAN_LENGTH = 0.9
"""InferenceX draws lengths uniformly between 0.8 and 1 of the nominal ones."""


_CLIENTS = (
    (("inference",), "inferencex"),
    (("open loop", "open-loop", "request rate", "poisson"), "open_loop"),
    (("closed",), "closed_loop"),
)
"""Load generators by the words of publications."""


@dataclass(frozen=True)
class Formats:
    """Number formats of weights, KV cache and compute."""

    compute_bits: int
    expert_bits: int
    weight_bytes: float
    expert_bytes: float
    kv_bytes: float
    expert_format: str = ""
    """What the kernels of experts run, by its name in `catalog.expert_formats`; empty: 16 bits."""


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
    """The engine's release as numbers; empty where none is stated.

    Of disaggregated deployments the stated one is the orchestrator's, and a first number beyond
    those of the engines is a date or an image.
    """
    if str(case.inputs.get("mode") or "").lower().startswith("disagg"):
        return ()
    stated = str(case.inputs.get("backend_version") or "")
    if not stated:
        match = _VERSIONS[engine].search(text_of(case))
        stated = match.group(1) if match else ""
    release = tuple(int(part) for part in _DIGITS.findall(stated)[:3])
    return release if release and release[0] < _NO_RELEASE else ()


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
        for words, client in _CLIENTS:
            if any(word in stated for word in words):
                return client, []
        return "closed_loop", [f'client "{stated}": taken as a closed loop']
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


def formats_of(
    case: Case, engine: str, model: str, architecture: Mapping[str, float], rates: dict[str, float]
) -> Formats:
    """Number formats from the precision fields of a case, of the checkpoint that they mean."""
    stated = [
        str(case.inputs.get(name) or "").lower()
        for name in ("precision", "gemm_quant", "moe_quant", "weights", "dtype")
    ]
    words = " ".join(stated)
    clauses = [c for part in stated for c in _CLAUSE.split(part) if "kv" not in c]
    name = checkpoint_formats.stated(clauses)
    if name is None:
        return Formats(16, 16, 2.0, 2.0, 1.0 if _has_8_bit_cache(words) else 2.0)
    has_experts = architecture.get("architecture.experts", 0) > 0
    native = checkpoint_formats.experts_of(model, name) if has_experts else None
    experts = native or name
    has_4_bit = rates["gpu.rate_4bit"] > rates["gpu.rate_8bit"]
    is_weight_only = any(word in words for word in _WEIGHT_ONLY)
    run = checkpoint_formats.run_as(experts, engine, has_4_bit, version_of(case, engine))
    width = expert_formats.width(run)
    # What runs as another format is stored as it was published.
    stored = expert_formats.WIDTHS.get(experts, width).weight_bytes
    bits = 16 if is_weight_only else _bits(width.bits, rates)
    kv = 1.0 if _has_8_bit_cache(words) or _has_narrow_keys(engine, experts) else 2.0
    keeps_attention = has_experts and (
        experts in checkpoint_formats.EXPERTS_ONLY
        or (width.bits == 4 and architecture.get("architecture.latent.width", 0) > 0)
    )
    if keeps_attention:
        return Formats(16, bits, 2.0, stored, kv, run)
    return Formats(bits, bits, stored, stored, kv, run)


def _bits(bits: int, rates: dict[str, float]) -> int:
    """Bits of the operands in the tensor cores: 16 where the accelerator has no fewer."""
    rate = {4: "gpu.rate_4bit", 8: "gpu.rate_8bit"}.get(bits)
    return bits if rate is None or rates[rate] > 1 else 16


def _has_narrow_keys(engine: str, experts: str) -> bool:
    """Whether the checkpoint says 8-bit keys: NVIDIA's do, which TensorRT-LLM is published with."""
    return engine == "trtllm" and experts in ("fp8", "fp8_block", "nvfp4")


def parse_count(value: Any, otherwise: int = 1) -> int:
    """A count from a number or its text; `otherwise` for nothing or zero."""
    if value is None or value == "":
        return otherwise
    try:
        count = int(float(value))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"expected a count, got {value!r}") from None
    return count if count >= 1 else otherwise
