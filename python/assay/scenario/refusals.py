"""Scenarios that cannot exist: number formats, contexts and layouts that are refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import InputError
from assay.model.language.distributions import Distribution

BITS = (4, 8, 16)
"""Sizes in bits of the number formats of tensor cores: FP4 or INT4, FP8 or INT8, FP16 or BF16."""
LEAST_BYTES = 1.58 / 8
"""Bytes of a ternary weight, the smallest that language models are stored in."""
MOST_BYTES = 4.0
"""Bytes of an FP32 element."""

_COMPUTE = ("training.compute_bits", "serving.compute_bits", "serving.expert_bits")
_STORED = (
    "serving.weight_bytes", "serving.expert_bytes", "serving.kv_bytes", "optimizer.weight_bytes",
    "optimizer.gradient_bytes",
)  # fmt: skip
_FORMATS = {
    8: (("gpu.rate_8bit", "gpu.rate_fp8", "FP8"), ("gpu.integer_8bit", "gpu.rate_int8", "INT8")),
    4: (("gpu.rate_4bit", "gpu.rate_fp4", "FP4"), ("gpu.integer_4bit", "gpu.rate_int4", "INT4")),
}

Given = Mapping[str, float | Distribution]


def rules() -> dict[str, Any]:
    """The names and numbers of these rules as plain data, for another program that applies them."""
    return {
        "bits": list(BITS),
        "least_bytes": LEAST_BYTES,
        "most_bytes": MOST_BYTES,
        "compute": list(_COMPUTE),
        "stored": list(_STORED),
        "formats": [
            {"bits": bits, "rate": floating[0], "floating": floating[1:], "integer": integer}
            for bits, (floating, integer) in _FORMATS.items()
        ],
    }


def refuse_impossible(given: Given, variants: Mapping[str, str], accelerator: str = "") -> None:
    """Raise the error for the first thing that a scenario asks for and that does not exist."""
    for error in impossible(given, variants, accelerator):
        raise error


def impossible(
    given: Given, variants: Mapping[str, str], accelerator: str = ""
) -> Iterator[InputError]:
    """One error for each thing that a scenario asks for and that does not exist.

    `accelerator` is its name in messages. Values that are distributions are not judged.
    """
    known = {name: value for name, value in given.items() if isinstance(value, float | int)}
    yield from _formats(known, variants, accelerator or "this accelerator")
    yield from _experts(known)
    yield from _context(known)


def _formats(
    known: Mapping[str, float], variants: Mapping[str, str], accelerator: str
) -> Iterator[InputError]:
    for name in _COMPUTE:
        bits = known.get(name)
        if bits is None or (name == "serving.expert_bits" and _is_dense(known)):
            continue
        if bits not in BITS:
            yield InputError(
                f"{name}: expected a number format of 4, 8 or 16 bits, got {bits:g}",
                "weights may be stored in fewer bits than GEMMs compute in: serving.weight_bytes",
            )
        elif bits in _FORMATS:
            yield from _lacking(name, int(bits), known, variants, accelerator)
    for name in _STORED:
        size = known.get(name)
        if size is not None and size and not LEAST_BYTES <= size <= MOST_BYTES:
            yield InputError(
                f"{name}: expected {LEAST_BYTES:.4g} to {MOST_BYTES:g} byte, got {size:g} byte",
                "formats of language models have 1.58 (ternary) to 32 bits",
            )


def _lacking(
    name: str, bits: int, known: Mapping[str, float], variants: Mapping[str, str], accelerator: str
) -> Iterator[InputError]:
    """The error for a format that the accelerator has no tensor cores for."""
    (rate, floating, text), (variant, integer, integer_text) = _FORMATS[bits]
    if rate in known:
        return
    chosen = variants.get(rate, "").removeprefix("gpu.") == variant.removeprefix("gpu.")
    stated, lacking = (integer, integer_text) if chosen else (floating, text)
    if known.get(stated) != 0:
        return
    hint = f"compute in 16 bits ({name}=16); weights may still be stored in fewer"
    if not chosen and known.get(integer) and name.startswith("serving."):
        hint += f", or choose {integer_text}: --variant {rate}={variant}"
    yield InputError(f"{name}={bits}: {accelerator} has no {lacking} tensor cores", hint)


def _is_dense(known: Mapping[str, float]) -> bool:
    return known.get("architecture.experts") == 0


def _experts(known: Mapping[str, float]) -> Iterator[InputError]:
    for name in ("parallelism.expert", "serving.expert"):
        ranks = known.get(name, 1.0)
        if ranks > 1 and _is_dense(known):
            yield InputError(
                f"{name}={ranks:g}: the model is dense and has no experts to divide",
                f"give {name}=1, or a mixture-of-experts model",
            )


def _context(known: Mapping[str, float]) -> Iterator[InputError]:
    context = known.get("architecture.context")
    if context is None:
        return
    serving = known.get("serving.prompt", 0.0) + known.get("serving.output", 0.0)
    asked = {
        "architecture.sequence": known.get("architecture.sequence", 0.0),
        "serving.prompt + serving.output": serving,
    }
    for name, tokens in asked.items():
        if tokens > context:
            yield InputError(
                f"{name} of {tokens:,.0f} tokens is beyond the model's context of {context:,.0f}",
                f'with RoPE scaling, state the context: --set architecture.context="{tokens:g} token"',
            )
