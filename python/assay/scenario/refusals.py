"""Scenarios that cannot exist: number formats, contexts, layouts and coolants that are refused by name.

Each refusal is a condition over what is given, so that a page can judge it without this program: the
symbols of a condition are `value NAME`, `exact NAME` (whether a plain number is given) and
`chosen NAME=RELATION`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from assay.errors import InputError
from assay.model.language.distributions import Distribution
from assay.model.language.expression import (
    Expression,
    Number,
    Operation,
    Symbol,
    evaluate,
    variables_of,
)
from assay.model.language.functions import where

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


class Refusal(NamedTuple):
    """What a scenario asks for that does not exist, where a condition holds.

    `text` and `hint` format `numbers` by position, and the name of the accelerator.
    """

    condition: Expression
    text: str
    hint: str
    numbers: tuple[Expression, ...] = ()


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
    known = {name: float(v) for name, v in given.items() if isinstance(v, float | int)}
    symbols: dict[str, float] = {}
    for refusal in refusals():
        for symbol in (
            s for part in (refusal.condition, *refusal.numbers) for s in variables_of(part)
        ):
            kind, _, name = symbol.partition(" ")
            if kind == "value":
                symbols[symbol] = known.get(name, 0.0)
            elif kind == "exact":
                symbols[symbol] = float(name in known)
            else:
                variable, _, relation = name.partition("=")
                symbols[symbol] = float(_short(variants.get(variable, "")) == _short(relation))
        if evaluate(refusal.condition, symbols):
            numbers = [evaluate(number, symbols) for number in refusal.numbers]
            name = accelerator or "this accelerator"
            yield InputError(
                refusal.text.format(*numbers, accelerator=name), refusal.hint.format(*numbers)
            )


def _short(relation: str) -> str:
    return relation.removeprefix("gpu.")


@cache
def refusals() -> tuple[Refusal, ...]:
    """Everything that is refused, in the order of the messages."""
    return (*_formats(), *_sizes(), *_experts(), *_context(), *_coolant())


def _value(name: str) -> Expression:
    return Symbol(f"value {name}")


def _exact(name: str) -> Expression:
    return Symbol(f"exact {name}")


def _equals(name: str, number: float) -> Expression:
    """Whether a plain number is given and is this one."""
    return _exact(name) & Operation("eq", _value(name), Number(number))


def _is_dense() -> Expression:
    return _equals("architecture.experts", 0.0)


def _formats() -> Iterator[Refusal]:
    for name in _COMPUTE:
        asked = _exact(name)
        if name == "serving.expert_bits":
            asked = asked & ~_is_dense()
        known = _equals(name, BITS[0])
        for bits in BITS[1:]:
            known = known | _equals(name, bits)
        yield Refusal(
            asked & ~known,
            f"{name}: expected a number format of 4, 8 or 16 bits, got {{0:g}}",
            "weights may be stored in fewer bits than GEMMs compute in: serving.weight_bytes",
            (_value(name),),
        )
        for bits in _FORMATS:
            yield from _lacking(name, bits, asked & _equals(name, bits))


def _lacking(name: str, bits: int, asked: Expression) -> Iterator[Refusal]:
    """The refusals of a format that the accelerator has no tensor cores for."""
    (rate, floating, text), (variant, integer, integer_text) = _FORMATS[bits]
    chosen = Symbol(f"chosen {rate}={variant}")
    asked = asked & ~_exact(rate)
    hint = f"compute in 16 bits ({name}=16); weights may still be stored in fewer"
    refused = f"{name}={bits}: {{accelerator}} has no {{lacking}} tensor cores"
    lacks_floating = asked & ~chosen & _equals(floating, 0.0)
    has_integer = _exact(integer) & ~_equals(integer, 0.0)
    if name.startswith("serving."):
        yield Refusal(
            lacks_floating & has_integer,
            refused.replace("{lacking}", text),
            f"{hint}, or choose {integer_text}: --variant {rate}={variant}",
        )
        lacks_floating = lacks_floating & ~has_integer
    yield Refusal(lacks_floating, refused.replace("{lacking}", text), hint)
    lacks_integer = asked & chosen & _equals(integer, 0.0)
    yield Refusal(lacks_integer, refused.replace("{lacking}", integer_text), hint)


def _sizes() -> Iterator[Refusal]:
    for name in _STORED:
        size = _value(name)
        yield Refusal(
            _exact(name) & ~_equals(name, 0.0) & ((size < LEAST_BYTES) | (size > MOST_BYTES)),
            f"{name}: expected {LEAST_BYTES:.4g} to {MOST_BYTES:g} byte, got {{0:g}} byte",
            "formats of language models have 1.58 (ternary) to 32 bits",
            (size,),
        )


def _experts() -> Iterator[Refusal]:
    for name in ("parallelism.expert", "serving.expert"):
        yield Refusal(
            _exact(name) & (_value(name) > 1) & _is_dense(),
            f"{name}={{0:g}}: the model is dense and has no experts to divide",
            f"give {name}=1, or a mixture-of-experts model",
            (_value(name),),
        )


def _context() -> Iterator[Refusal]:
    def tokens(name: str) -> Expression:
        return where(_exact(name), _value(name), 0.0)

    context = "architecture.context"
    asked = {
        "architecture.sequence": tokens("architecture.sequence"),
        "serving.prompt + serving.output": tokens("serving.prompt") + tokens("serving.output"),
    }
    for name, count in asked.items():
        yield Refusal(
            _exact(context) & (count > _value(context)),
            f"{name} of {{0:,.0f}} tokens is beyond the model's context of {{1:,.0f}}",
            'with RoPE scaling, state the context: --set architecture.context="{0:g} token"',
            (count, _value(context)),
        )


def _coolant() -> Iterator[Refusal]:
    coolant, limit = "gpu.coolant_temperature", "gpu.temperature_limit"
    yield Refusal(
        _exact(coolant) & _exact(limit) & (_value(coolant) >= _value(limit)),
        f"{coolant} of {{0:g}} K: the coolant is no colder than the {{1:g}} K that the die may reach",
        f"give a coolant below {{1:g}} K, or another {limit}",
        (_value(coolant), _value(limit)),
    )
