"""The required and optional keys of `config.json` for each architecture.

Every dimension is required. A key may be absent where `transformers` itself has a default; each
default that is used is noted. Keys beyond these are judged by `configuration_keys`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from assay.engine.architectures.decoder import MXFP4_BLOCK
from assay.engine.architectures.registry import ARCHITECTURES, ENCODERS
from assay.engine.architectures.schema import ConfigSchema
from assay.engine.loading.configuration_keys import check_keys, short
from assay.engine.loading.rope_scaling import standard_scaling, unfold_rope_parameters
from assay.errors import InputError, UnsupportedError

SCHEMAS: Final[dict[str, ConfigSchema]] = {
    name: architecture.schema for name, architecture in ARCHITECTURES.items()
}
"""The keys of every supported architecture, by its `model_type`."""

_EXPERT_COUNTS: Final = ("num_local_experts", "num_experts", "n_routed_experts")
MAX_TAPS: Final = 8
"""The most taps of a convolution."""
MAX_EXPERTS: Final = 4096
"""The most experts of a layer: each has tensors of its own, whose names are listed."""

_FLAG: Final = (bool, "true or false")
_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(
        (
            "tie_word_embeddings",
            "attention_bias",
            "mlp_bias",
            "use_sliding_window",
            "use_bias",
            "use_conv_bias",
            "qkv_bias",
            "norm_topk_prob",
        ),
        _FLAG,
    ),
    "rope_scaling": (dict | None, "an object or null"),
    "rope_interleave": (bool | None, "true, false or null"),
    "n_inner": (int | None, "a number or null"),
    "topk_method": (str, "a text"),
    "scoring_func": (str, "a text"),
    "hidden_act": (str, "a text"),
    "hidden_activation": (str | None, "a text or null"),
    "activation_function": (str, "a text"),
    "mlp_only_layers": (list | None, "a list or null"),
    "no_rope_layers": (list | None, "a list or null"),
}

_POSITIVE: Final = (
    "rms_norm_eps",
    "layer_norm_epsilon",
    "layer_norm_eps",
    "norm_epsilon",
    "rope_theta",
    "rope_local_base_freq",
    "query_pre_attn_scalar",
    "attention_multiplier",
    "embedding_multiplier",
    "residual_multiplier",
    "logits_scaling",
    "logit_scale",
    "routed_scaling_factor",
)
_POSITIVE_OR_NULL: Final = ("attn_logit_softcapping", "final_logit_softcapping")
_NOT_NEGATIVE: Final = ("first_k_dense_replace", "num_nextn_predict_layers")
_COUNTS: Final = ("sliding_window_pattern", "no_rope_layer_interval", "decoder_sparse_step")


def known_architecture(where: str, name: Any) -> str:
    """The architecture, if it is supported."""
    if isinstance(name, str) and name in SCHEMAS:
        return name
    raise UnsupportedError(
        f'{where}: expected a known architecture, got "{name}"',
        f"one of: {', '.join((*SCHEMAS, *ENCODERS))}",
    )


def validated(
    where: str, architecture: str, found: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A configuration with every key of its architecture, and notes of the defaults used."""
    schema = SCHEMAS[architecture]
    config = {**found, "model_type": architecture}
    if "num_experts" in schema.keys and "num_local_experts" in config:
        # transformers 5 writes it under the name that Mixtral has.
        count = config.pop("num_local_experts")
        if config.setdefault("num_experts", count) != count:
            raise InputError(
                f"{where}: expected one number of experts, got {config['num_experts']!r} "
                f"and {count!r}"
            )
        found = {key: value for key, value in found.items() if key != "num_local_experts"}
    unfold_rope_parameters(where, config, schema.keys)
    notes = []
    for key, value in schema.defaults.items():
        if key not in config:
            config[key] = value
            notes.append(f"{where} has no {key}: {value}, as transformers reads it")
    for key in (*schema.dimensions, *schema.required):
        if key not in config:
            raise InputError(
                f'{where}: expected the key "{key}", got none',
                f"a {architecture} model cannot be read without it",
            )
    for key in schema.dimensions:
        check_dimension(where, key, config[key])
    for key in _POSITIVE:
        if key in schema.keys:
            check_positive(where, key, config[key])
    for key in _POSITIVE_OR_NULL:
        if key in schema.keys and config[key] is not None:
            check_positive(where, key, config[key])
    for key in _COUNTS:
        if key in schema.keys:
            check_dimension(where, key, config[key])
    for key in _NOT_NEGATIVE:
        if key in schema.keys and config[key] != 0:
            check_dimension(where, key, config[key])
    for key, (kinds, expected) in _TYPES.items():
        if key in config and not isinstance(config[key], kinds):
            raise InputError(f"{where}: expected {key} as {expected}, got {config[key]!r}")
    code = ARCHITECTURES[architecture].model_code
    known = schema.keys.union(ARCHITECTURES[architecture].ignored)
    notes += check_keys(where, architecture, found, known, code)
    has_rope = "rope_scaling" in schema.keys
    if has_rope:
        _check_layers(where, schema, config)
        _check_experts(where, schema, config)
        notes += _check_latents(where, schema, config)
    if config.get("quantization_config") is not None:
        _check_quantization(where, config)
    notes += _derive_heads(where, architecture, config)
    if has_rope:
        _check_rotary(where, config)
        config["rope_scaling"], found_notes = standard_scaling(where, config)
        notes += found_notes
    return config, tuple(notes)


def _check_layers(where: str, schema: ConfigSchema, config: dict[str, Any]) -> None:
    """Check what is stated layer by layer: windows, layers without RoPE or without experts."""
    if "use_sliding_window" in schema.keys and not config["use_sliding_window"]:
        config["sliding_window"] = config["layer_types"] = None
    if (window := config.get("sliding_window")) is not None:
        check_dimension(where, "sliding_window", window)
        last = config.get("max_window_layers", 0)
        if isinstance(last, bool) or not isinstance(last, int):
            raise InputError(f"{where}: expected max_window_layers as an integer, got {last!r}")
    layers = config["num_hidden_layers"]
    flags = config.get("no_rope_layers") if "no_rope_layers" in schema.keys else None
    if flags is not None and (len(flags) != layers or any(flag not in (0, 1) for flag in flags)):
        raise InputError(
            f"{where}: expected no_rope_layers of {layers} zeros and ones, got {short(flags)}"
        )


def _check_experts(where: str, schema: ConfigSchema, config: dict[str, Any]) -> None:
    key = next((key for key in _EXPERT_COUNTS if key in schema.keys), None)
    if key is None:
        return
    count, used = config[key], config["num_experts_per_tok"]
    if count > MAX_EXPERTS:
        raise InputError(f"{where}: expected {key} of at most {MAX_EXPERTS}, got {count}")
    if used > count:
        raise InputError(f"{where}: expected num_experts_per_tok of at most {count}, got {used}")
    if "n_group" in schema.keys:
        _check_groups(where, config, count, used)


def _check_groups(where: str, config: dict[str, Any], count: int, used: int) -> None:
    """Check the groups of experts that the choice is limited to, where there are some."""
    groups, chosen = config["n_group"], config["topk_group"]
    if groups is None and chosen is None:
        config["n_group"] = config["topk_group"] = 1
        return
    for key in ("n_group", "topk_group"):
        check_dimension(where, key, config[key])
    check_divides(where, "n_routed_experts", count, "n_group", groups)
    if chosen > groups or chosen * (count // groups) < used:
        raise InputError(
            f"{where}: expected topk_group of at most {groups} groups that hold {used} experts, "
            f"got {chosen}"
        )
    if config.get("scoring_func") == "sigmoid" and count < 2 * groups:
        raise InputError(
            f"{where}: expected n_group with two experts a group, got {groups} of {count} experts"
        )


def _check_latents(where: str, schema: ConfigSchema, config: dict[str, Any]) -> list[str]:
    """Check the dimensions of latent attention; the head size is that of the rotated part."""
    if "kv_lora_rank" not in schema.keys:
        return []
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    if heads != kv_heads:
        raise InputError(
            f"{where}: expected num_key_value_heads {heads}, one for each head, got {kv_heads}"
        )
    rotated = config["qk_rope_head_dim"]
    if rotated % 2:
        raise InputError(f"{where}: expected an even qk_rope_head_dim, got {rotated}")
    if config["q_lora_rank"] is not None:
        check_dimension(where, "q_lora_rank", config["q_lora_rank"])
    config["head_dim"] = rotated
    if not config.get("num_nextn_predict_layers"):
        return []
    return [f"{where}: layers of multi-token prediction are not used"]


def _check_quantization(where: str, config: dict[str, Any]) -> None:
    """Check the one method that an architecture reads: MXFP4 of the experts."""
    given = config["quantization_config"]
    method = given.get("quant_method") if isinstance(given, dict) else given
    if method != "mxfp4":
        raise UnsupportedError(f'{where}: expected quant_method "mxfp4", got {short(method)}')
    for key in ("hidden_size", "intermediate_size"):
        if config[key] % MXFP4_BLOCK:
            raise InputError(
                f"{where}: expected {key} in multiples of {MXFP4_BLOCK}, got {config[key]}"
            )


def _check_rotary(where: str, config: dict[str, Any]) -> None:
    share = config.get("partial_rotary_factor")
    if share is None:
        return
    check_positive(where, "partial_rotary_factor", share)
    if not 2 <= int(config["head_dim"] * share) <= config["head_dim"]:
        raise InputError(
            f"{where}: expected partial_rotary_factor of a part of {config['head_dim']} "
            f"dimensions, got {share!r}"
        )


def check_dimension(where: str, key: str, value: Any) -> None:
    """Refuse what is not a positive 31-bit integer."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise InputError(f"{where}: expected {key} as an integer from 1 to 2^31 - 1, got {value!r}")


def check_positive(where: str, key: str, value: Any) -> None:
    """Refuse what is not a positive number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < 1e38:
        raise InputError(f"{where}: expected {key} as a positive number, got {value!r}")


def _derive_heads(where: str, architecture: str, config: dict[str, Any]) -> list[str]:
    """Check the head counts, and derive the head size where it is absent."""
    if architecture == "gpt2":
        width, heads = config["n_embd"], config["n_head"]
        config["n_inner"] = config["n_inner"] or 4 * width
        check_dimension(where, "n_inner", config["n_inner"])
        check_divides(where, "n_embd", width, "n_head", heads)
        return []
    if "state_size" in SCHEMAS[architecture].keys:
        _check_state_space(where, config)
        return []
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    check_divides(where, "num_attention_heads", heads, "num_key_value_heads", kv_heads)
    if config.get("head_dim") is not None:
        check_dimension(where, "head_dim", config["head_dim"])
        return []
    check_divides(where, "hidden_size", config["hidden_size"], "num_attention_heads", heads)
    config["head_dim"] = config["hidden_size"] // heads
    return [f"{where} has no head_dim: {config['head_dim']}, hidden_size over num_attention_heads"]


def _check_state_space(where: str, config: dict[str, Any]) -> None:
    """Check the dimensions of state-space layers."""
    heads, groups, taps = config["num_heads"], config["n_groups"], config["conv_kernel"]
    check_divides(where, "num_heads", heads, "n_groups", groups)
    if not 2 <= taps <= MAX_TAPS:
        raise InputError(f"{where}: expected conv_kernel from 2 to {MAX_TAPS}, got {taps}")
    check_positive(where, "expand", config["expand"])
    inner = config["hidden_size"] * config["expand"]
    if inner != heads * config["head_dim"]:
        raise InputError(
            f"{where}: expected num_heads times head_dim of {inner:g}, hidden_size times expand, "
            f"got {heads * config['head_dim']}"
        )
    limit = config["time_step_limit"]
    is_pair = isinstance(limit, list | tuple) and len(limit) == 2
    if is_pair:
        # transformers 5 writes infinity this way.
        infinity = {"__float__": "Infinity"}
        limit = config["time_step_limit"] = [math.inf if one == infinity else one for one in limit]
    if not is_pair or not all(
        isinstance(one, int | float) and not isinstance(one, bool) and one >= 0 for one in limit
    ):
        raise InputError(f"{where}: expected time_step_limit as two numbers, got {short(limit)}")
    if limit[0] > limit[1]:
        raise InputError(f"{where}: expected a rising time_step_limit, got {short(limit)}")


def check_divides(where: str, name: str, value: int, by: str, divisor: int) -> None:
    """Refuse a number that another one does not divide."""
    if value % divisor:
        raise InputError(f"{where}: expected {name} as a multiple of {by} {divisor}, got {value}")
