"""Mixes of block formats in GGUF files: which tensors have which, and the mean bytes of a weight.

A file named Q4_K_M is mostly Q4_K. Half of its value projections and of the last matrices of its
feed-forward networks are Q6_K, and so is the output projection, which a tied embedding is, too. The
rules are those of llama.cpp, `llama_tensor_get_type` of src/llama-quant.cpp (2026), without an
importance matrix.

>>> from assay.catalog import models
>>> mix("q4_k_m", models.find("llama-3.1-8b").shapes).embeddings
0.69140625
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

_Rule = Callable[[int, int], str]
"""The format of a tensor in a layer, of so many layers."""

_USUAL: Final = {"q2": "q2_k", "q3": "q3_k_m", "q4": "q4_k_m", "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0",
                 "q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}  # fmt: skip
"""Mixes that half a name stands for, as `llama-quantize` takes it."""
_HEAD: Final = "q6_k"
"""Of the output projection, unless the file is wider."""
_NARROW_ROWS: Final = {"q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
                       "iq4_xs": "iq4_nl"}  # fmt: skip
"""What rows have that blocks of 256 do not divide."""
_LARGE_LAYERS: Final = 80
"""Layers of the models of 70B, whose value projections are small beside the rest."""
_FEW_EXPERTS: Final = 8
_GROUPED: Final = 4
"""Query heads of a KV head from which value projections are small."""


class Mix(NamedTuple):
    """Mean bytes of a stored weight: of layers, of routed experts, and of embedding and output."""

    weights: float
    experts: float
    embeddings: float


class _Rules(NamedTuple):
    base: str
    value: _Rule | None = None
    down: _Rule | None = None
    output: str = ""
    """Of the last matrix of attention, where it is not the base."""


def _has_more_bits(layer: int, layers: int) -> bool:
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def _half(base: str) -> _Rule:
    return lambda layer, layers: "q6_k" if _has_more_bits(layer, layers) else base


def _all(name: str) -> _Rule:
    return lambda layer, layers: name


_RULES: Final = {
    "q2_k": _Rules("q2_k", _all("q3_k"), _all("q3_k"), "q3_k"),
    "q3_k_s": _Rules("q3_k"),
    "q3_k_m": _Rules(
        "q3_k",
        lambda layer, layers: "q5_k" if layer < 2 else "q4_k",
        lambda layer, layers: "q5_k" if layer < layers // 16 else "q4_k",
        "q4_k",
    ),
    "q3_k_l": _Rules("q3_k", _all("q5_k"), _all("q5_k"), "q5_k"),
    "q4_k_s": _Rules(
        "q4_k",
        lambda layer, layers: "q5_k" if layer < 4 else "q4_k",
        lambda layer, layers: "q5_k" if layer < layers // 8 else "q4_k",
    ),
    "q4_k_m": _Rules("q4_k", _half("q4_k"), _half("q4_k")),
    "q5_k_s": _Rules("q5_k"),
    "q5_k_m": _Rules("q5_k", _half("q5_k"), _half("q5_k")),
    **{name: _Rules(name) for name in ("q6_k", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1")},
}
"""Mixes by name; tensors without a rule of their own have the base."""


def canonical(name: str) -> str:
    """A mix by its name or by half of it; empty where the rules of it are not known.

    >>> canonical("Q4"), canonical("q5_k"), canonical("iq2_xxs")
    ('q4_k_m', 'q5_k_m', '')
    """
    lower = name.strip().lower()
    mix_name = _USUAL.get(lower, lower)
    return mix_name if mix_name in _RULES else ""


def mix(name: str, shapes: Mapping[str, float]) -> Mix:
    """The mean bytes of a weight of a model with these shapes, in the file of a mix."""
    rules = _RULES[canonical(name)]
    layers, hidden = round(shapes["layers"]), round(shapes["hidden"])
    shared = [tensor for layer in range(layers) for tensor in _attention(rules, layer, shapes)]
    experts: list[tuple[float, str]] = []
    has_experts = shapes["experts"] > 0
    for layer in range(layers):
        is_dense = not has_experts or layer < shapes["dense_layers"]
        width = round(shapes["ffn"] if is_dense else shapes["expert_ffn"])
        network = list(_network(rules, layer, width, shapes))
        if is_dense:
            shared += network
            continue
        experts += network
        shared += [(count * shapes["shared_experts"], stored) for count, stored in network]
    head = _fitting(rules.base if rules.base == "q8_0" else _HEAD, hidden)
    tables = [head] if shapes["embedding_tables"] < 2 else [head, _fitting(rules.base, hidden)]
    return Mix(
        _mean(shared),
        _mean(experts) if experts else _mean(shared),
        sum(_bytes(stored) for stored in tables) / len(tables),
    )


def _attention(
    rules: _Rules, layer: int, shapes: Mapping[str, float]
) -> Iterable[tuple[float, str]]:
    """Weights and formats of the projections of attention in a layer."""
    hidden, heads, kv_heads = (round(shapes[name]) for name in ("hidden", "heads", "kv_heads"))
    queries, keys = heads * shapes["head_size"], kv_heads * shapes["head_size"]
    layers, few = round(shapes["layers"]), shapes["experts"] == _FEW_EXPERTS
    value = rules.value(layer, layers) if rules.value else rules.base
    if rules.base == "q2_k" and heads >= _GROUPED * kv_heads:
        value = "q4_k"
    if layers == _LARGE_LAYERS and heads > kv_heads and value in ("q3_k", "q4_k"):
        value = "q5_k"
    output = rules.output or rules.base
    if few and rules.base in ("q2_k", "q3_k", "q4_k") and rules.output != "q5_k":
        output = "q5_k"
    yield hidden * queries, _fitting(rules.base, hidden)
    yield hidden * keys, _fitting("q8_0" if few else rules.base, hidden)
    yield hidden * kv_heads * shapes["value_size"], _fitting("q8_0" if few else value, hidden)
    yield heads * shapes["value_size"] * hidden, _fitting(output, round(queries))


def _network(
    rules: _Rules, layer: int, width: int, shapes: Mapping[str, float]
) -> Iterable[tuple[float, str]]:
    """Weights and formats of the matrices of a feed-forward network."""
    hidden = round(shapes["hidden"])
    down = rules.down(layer, round(shapes["layers"])) if rules.down else rules.base
    yield (shapes["ffn_matrices"] - 1) * hidden * width, _fitting(rules.base, hidden)
    yield hidden * width, _fitting(down, width)


def _fitting(name: str, row: int) -> str:
    """The format, or what rows of such a length have instead of it."""
    return name if row % 256 == 0 else _NARROW_ROWS.get(name, name)


def _mean(tensors: Iterable[tuple[float, str]]) -> float:
    parts = list(tensors)
    return sum(count * _bytes(stored) for count, stored in parts) / sum(count for count, _ in parts)


def _bytes(name: str) -> float:
    from assay._native import BLOCK_FORMATS

    block = BLOCK_FORMATS[name]
    return float(block.bytes / block.values)
