"""RoPE scaling of a configuration, checked key by key and with every default filled in.

Follows `transformers` (`modeling_rope_utils`), whose defaults come from the YaRN paper (Peng et al.
2023, arXiv:2309.00071).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from assay.errors import InputError, UnsupportedError

Scaling = dict[str, Any]

_CONTEXT: Final = "original_max_position_embeddings"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _CONTEXT),
    "yarn": (
        "factor",
        _CONTEXT,
        "beta_fast",
        "beta_slow",
        "attention_factor",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
    "longrope": ("factor", _CONTEXT, "short_factor", "long_factor", "attention_factor"),
}
"""The keys of each `rope_type` that is implemented."""

# `finetuned` says how the weights came about; the type has two spellings.
_ANY_TYPE: Final = ("rope_type", "type", "finetuned")


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """YaRN's factor of cosines and sines: 0.1 mscale ln(factor) + 1, and 1 below a factor of 1.

    >>> round(yarn_attention_factor(4.0), 4)
    1.1386
    """
    return 1.0 if factor <= 1.0 else 0.1 * mscale * math.log(factor) + 1.0


def unfold_rope_parameters(
    where: str, config: dict[str, Any], keys: frozenset[str] = frozenset()
) -> None:
    """Move the base and the scaling of RoPE out of the one object that newer files have.

    `keys` are those of the architecture: one that reads `rope_local_base_freq` may state RoPE by
    the type of its layers, and one that reads `partial_rotary_factor` may state it in there.
    """
    parameters = config.get("rope_parameters")
    if parameters is not None and config.get("rope_scaling") is None:
        config["rope_scaling"] = parameters
    if "rope_local_base_freq" in keys:
        _unfold_layer_types(where, config)
    scaling = config.get("rope_scaling")
    if not isinstance(scaling, dict):
        return
    scaling = dict(scaling)
    for key in ("rope_theta", "partial_rotary_factor"):
        if key not in scaling or (key != "rope_theta" and key not in keys):
            continue
        value = scaling.pop(key)
        # transformers 4 reads the outer one, transformers 5 the inner one.
        if config.setdefault(key, value) != value:
            raise InputError(f"{where}: expected one {key}, got {config[key]!r} and {value!r}")
    config["rope_scaling"] = scaling


def _unfold_layer_types(where: str, config: dict[str, Any]) -> None:
    """RoPE of layers with a window is plain, with a base of its own; the others have the scaling."""
    scaling = config.get("rope_scaling")
    if not isinstance(scaling, dict) or "sliding_attention" not in scaling:
        return
    local = scaling["sliding_attention"]
    plain = isinstance(local, dict) and local.get("rope_type", "default") == "default"
    if not plain or set(scaling) != {"full_attention", "sliding_attention"}:
        raise UnsupportedError(
            f"{where}: expected scaled RoPE in layers of full_attention only, "
            f"got {sorted(map(str, scaling))}"
        )
    config["rope_scaling"] = scaling["full_attention"]
    if "rope_theta" in local:
        config["rope_local_base_freq"] = local["rope_theta"]


def standard_scaling(where: str, config: Mapping[str, Any]) -> tuple[Scaling | None, list[str]]:
    """The scaling with all its parameters, or None for plain RoPE; and notes."""
    found = config.get("rope_scaling")
    if not found:
        return None, []
    if any(isinstance(value, dict) for value in found.values()):
        raise UnsupportedError(
            f"{where}: expected one rope_scaling for all layers, got one for each of: "
            f"{', '.join(sorted(found))}"
        )
    kind = found.get("rope_type", found.get("type", "default"))
    # The first files of Phi-3 say "su".
    kind = "longrope" if kind == "su" else kind
    if kind not in _KEYS:
        raise UnsupportedError(
            f'{where}: expected a known rope_type, got "{kind}"', f"implemented: {', '.join(_KEYS)}"
        )
    given = {key: value for key, value in found.items() if value is not None}
    if given.pop("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedError(
            f"{where}: expected partial_rotary_factor 1.0, got {found['partial_rotary_factor']}"
        )
    for key in given:
        if key not in (*_KEYS[kind], *_ANY_TYPE):
            raise UnsupportedError(
                f'{where}: expected only keys of rope_type "{kind}" in rope_scaling, got "{key}"',
                f"its keys: {', '.join(_KEYS[kind]) or 'none'}",
            )
    if kind == "default":
        return None, []
    context = _original_context(where, config, given)
    if kind == "longrope":
        return _longrope(where, config, given, context)
    if kind == "yarn" and "factor" not in given:
        given["factor"] = config["max_position_embeddings"] / context
    scaling: Scaling = {"rope_type": kind, "factor": _number(where, given, "factor")}
    if kind == "dynamic":
        length = config["max_position_embeddings"]
        note = (
            f"{where}: dynamic rope_scaling begins beyond the {length} positions served: not used"
        )
        return None, [note]
    if kind == "llama3":
        scaling[_CONTEXT] = context
        for key in ("low_freq_factor", "high_freq_factor"):
            scaling[key] = _number(where, given, key)
    elif kind == "yarn":
        scaling |= {_CONTEXT: context, **_yarn(where, given, scaling["factor"])}
    return scaling, []


def _longrope(
    where: str, config: Mapping[str, Any], given: Mapping[str, Any], context: int
) -> tuple[Scaling, list[str]]:
    """LongRoPE (Ding et al. 2024, arXiv:2402.13753): a factor for each pair of dimensions.

    There is one list for texts up to the original context and one for longer ones. Keys that are
    in the cache cannot be rotated again, so the served context decides for all texts, as in vLLM;
    `transformers` decides anew for each text.
    """
    longest = config["max_position_embeddings"]
    kind = "long_factor" if longest > context else "short_factor"
    share = config.get("partial_rotary_factor") or 1.0
    pairs = int(config["head_dim"] * share) // 2
    factors = given.get(kind)
    if not isinstance(factors, list) or len(factors) != pairs:
        got = len(factors) if isinstance(factors, list) else repr(factors)[:40]
        raise InputError(f"{where}: expected {kind} as {pairs} numbers, got {got}")
    factors = [_number(where, {kind: factor}, kind) for factor in factors]
    factor = longest / context
    if config.get(_CONTEXT) is None and "factor" in given:
        factor = _number(where, given, "factor")
    if "attention_factor" in given:
        attention_factor = _number(where, given, "attention_factor")
    elif factor <= 1.0 or context == 1:
        attention_factor = 1.0
    else:
        attention_factor = math.sqrt(1.0 + math.log(factor) / math.log(context))
    scaling = {"rope_type": "longrope", "factors": factors, "attention_factor": attention_factor}
    return scaling, [f"{where}: longrope with {kind} for texts of any length"]


def _yarn(where: str, given: Mapping[str, Any], factor: float) -> Scaling:
    truncate = given.get("truncate", True)
    if not isinstance(truncate, bool):
        raise InputError(f"{where}: expected truncate as true or false, got {truncate!r}")
    mscale, all_dim = (
        _number(where, given, key) if given.get(key) else 0.0
        for key in ("mscale", "mscale_all_dim")
    )
    if "attention_factor" in given:
        attention_factor = _number(where, given, "attention_factor")
    elif mscale and all_dim:
        attention_factor = yarn_attention_factor(factor, mscale) / yarn_attention_factor(
            factor, all_dim
        )
    else:
        attention_factor = yarn_attention_factor(factor)
    return {
        "beta_fast": _number(where, given, "beta_fast") if given.get("beta_fast") else 32.0,
        "beta_slow": _number(where, given, "beta_slow") if given.get("beta_slow") else 1.0,
        "attention_factor": attention_factor,
        # Multiplies the scores of latent attention, which DeepSeek states this way.
        "score_factor": yarn_attention_factor(factor, all_dim) ** 2 if all_dim else 1.0,
        "truncate": truncate,
    }


def _original_context(where: str, config: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """The context of training: an outer key has priority, and the served context is the default."""
    for source in (config, given):
        context = source.get(_CONTEXT)
        if context is None:
            continue
        if isinstance(context, bool) or not isinstance(context, int) or not 0 < context < 2**31:
            raise InputError(
                f"{where}: expected {_CONTEXT} as an integer from 1 to 2^31 - 1, got {context!r}"
            )
        return context
    default: int = config["max_position_embeddings"]
    return default


def _number(where: str, given: Mapping[str, Any], key: str) -> float:
    if key not in given:
        raise InputError(f'{where}: expected the key "{key}" in rope_scaling, got none')
    value = given[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < 1e38:
        raise InputError(f"{where}: expected {key} as a positive number, got {value!r}")
    return float(value)
