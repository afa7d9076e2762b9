"""The required and optional keys of `config.json` for each architecture.

Every dimension is required. A key may be absent where `transformers` itself has a default; each
default that is used is noted. Keys beyond these are judged by `configuration_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from assay.engine.loading.configuration_keys import check_keys
from assay.engine.loading.rope_scaling import standard_scaling, unfold_rope_parameters
from assay.errors import InputError, UnsupportedError


class ConfigSchema(NamedTuple):
    """Keys of one architecture: dimensions (positive integers), other required keys, defaults."""

    dimensions: tuple[str, ...]
    required: tuple[str, ...]
    defaults: Mapping[str, Any]


_LLAMA_DIMENSIONS: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)
_ROPE: Final = {"rope_theta": 10000.0, "rope_scaling": None}

SCHEMAS: Final[dict[str, ConfigSchema]] = {
    "llama": ConfigSchema(
        _LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act"),
        {
            **_ROPE,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
        },
    ),
    "mistral": ConfigSchema(
        _LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act", "sliding_window"),
        {**_ROPE, "tie_word_embeddings": False},
    ),
    "qwen2": ConfigSchema(
        _LLAMA_DIMENSIONS,
        ("rms_norm_eps", "hidden_act"),
        {**_ROPE, "tie_word_embeddings": False, "use_sliding_window": False},
    ),
    "qwen3": ConfigSchema(
        (*_LLAMA_DIMENSIONS, "head_dim"),
        ("rms_norm_eps", "hidden_act"),
        {
            **_ROPE,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "use_sliding_window": False,
        },
    ),
    "gpt2": ConfigSchema(
        ("n_embd", "n_layer", "n_head", "n_positions", "vocab_size"),
        ("layer_norm_epsilon", "activation_function"),
        {
            "n_inner": None,
            "tie_word_embeddings": True,
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
        },
    ),
}
"""Every supported architecture, by its `model_type`."""

_FLAG: Final = (bool, "true or false")
_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(
        ("tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window"), _FLAG
    ),
    "rope_scaling": (dict | None, "an object or null"),
    "n_inner": (int | None, "a number or null"),
    "hidden_act": (str, "a text"),
    "activation_function": (str, "a text"),
}


def known_architecture(where: str, name: Any) -> str:
    """The architecture, if it is supported."""
    if isinstance(name, str) and name in SCHEMAS:
        return name
    raise UnsupportedError(
        f'{where}: expected a known architecture, got "{name}"', f"one of: {', '.join(SCHEMAS)}"
    )


def validated(
    where: str, architecture: str, found: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A configuration with every key of its architecture, and notes of the defaults used."""
    schema = SCHEMAS[architecture]
    config = {**found, "model_type": architecture}
    unfold_rope_parameters(where, config)
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
        _check_dimension(where, key, config[key])
    for key in ("rms_norm_eps", "layer_norm_epsilon", "rope_theta"):
        if key in config:
            _check_positive(where, key, config[key])
    for key, (kinds, expected) in _TYPES.items():
        if key in config and not isinstance(config[key], kinds):
            raise InputError(f"{where}: expected {key} as {expected}, got {config[key]!r}")
    keys = frozenset((*schema.dimensions, *schema.required, *schema.defaults))
    notes += check_keys(where, architecture, found, keys)
    if architecture != "gpt2":
        config["rope_scaling"], found_notes = standard_scaling(where, config)
        notes += found_notes
        notes += _check_window(where, architecture, config)
    notes += _derive_heads(where, architecture, config)
    return config, tuple(notes)


def _check_window(where: str, architecture: str, config: dict[str, Any]) -> list[str]:
    """Check the window; a note says that it limits the context (`models.model_shape`)."""
    window = config.get("sliding_window")
    if architecture in ("qwen2", "qwen3") and not config["use_sliding_window"]:
        config["sliding_window"] = window = None
    if window is None:
        return []
    _check_dimension(where, "sliding_window", window)
    if window >= config["max_position_embeddings"]:
        return []
    return [f"{where}: sliding_window {window} limits the context to {window} tokens"]


def _check_dimension(where: str, key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise InputError(f"{where}: expected {key} as an integer from 1 to 2^31 - 1, got {value!r}")


def _check_positive(where: str, key: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < 1e38:
        raise InputError(f"{where}: expected {key} as a positive number, got {value!r}")


def _derive_heads(where: str, architecture: str, config: dict[str, Any]) -> list[str]:
    """Check the head counts, and derive the head size where it is absent."""
    if architecture == "gpt2":
        width, heads = config["n_embd"], config["n_head"]
        config["n_inner"] = config["n_inner"] or 4 * width
        _check_dimension(where, "n_inner", config["n_inner"])
        _check_divides(where, "n_embd", width, "n_head", heads)
        return []
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    _check_divides(where, "num_attention_heads", heads, "num_key_value_heads", kv_heads)
    if config.get("head_dim") is not None:
        _check_dimension(where, "head_dim", config["head_dim"])
        return []
    _check_divides(where, "hidden_size", config["hidden_size"], "num_attention_heads", heads)
    config["head_dim"] = config["hidden_size"] // heads
    return [f"{where} has no head_dim: {config['head_dim']}, hidden_size over num_attention_heads"]


def _check_divides(where: str, name: str, value: int, by: str, divisor: int) -> None:
    if value % divisor:
        raise InputError(f"{where}: expected {name} as a multiple of {by} {divisor}, got {value}")
