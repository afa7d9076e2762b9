"""The required and optional keys of `config.json` for each architecture.

Every dimension is required. A key may be absent where `transformers` itself has a default; each
default that is used is noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

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
    "sliding_window": (int | None, "a number or null"),
    "n_inner": (int | None, "a number or null"),
    "hidden_act": (str, "a text"),
    "activation_function": (str, "a text"),
}

# Options that would change the computation and are not implemented: only these values are accepted.
_UNSUPPORTED: Final[Mapping[str, Any]] = {
    "quantization_config": None,
    "partial_rotary_factor": 1.0,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
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
    _unfold_rope_parameters(config)
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
    for key, value in _UNSUPPORTED.items():
        if config.get(key, value) != value:
            raise UnsupportedError(f"{where}: expected {key} {value}, got {config[key]}")
    notes += _derive_heads(where, architecture, config)
    return config, tuple(notes)


def _unfold_rope_parameters(config: dict[str, Any]) -> None:
    """Newer files hold the base and the scaling of RoPE in one object."""
    parameters = config.get("rope_parameters")
    if not isinstance(parameters, dict):
        return
    scaling = dict(parameters)
    if "rope_theta" in scaling:
        config.setdefault("rope_theta", scaling.pop("rope_theta"))
    kind = scaling.get("rope_type", "default")
    config.setdefault("rope_scaling", None if kind == "default" else scaling)


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
