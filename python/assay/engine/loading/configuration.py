"""What `config.json` must say for each architecture, and the few things it may leave out.

Every extent has to be there. What may be absent is what `transformers` itself fills in when it
reads the file; each value taken that way is noted, so that nothing is assumed in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from assay.errors import InputError, UnsupportedError


class Rules(NamedTuple):
    """Keys of one architecture: positive integers, other required keys, and defaults."""

    extents: tuple[str, ...]
    required: tuple[str, ...]
    defaults: Mapping[str, Any]


_LLAMA_EXTENTS: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)
_ROTATION: Final = {"rope_theta": 10000.0, "rope_scaling": None}

RULES: Final[dict[str, Rules]] = {
    "llama": Rules(
        _LLAMA_EXTENTS,
        ("rms_norm_eps", "hidden_act"),
        {
            **_ROTATION,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
        },
    ),
    "mistral": Rules(
        _LLAMA_EXTENTS,
        ("rms_norm_eps", "hidden_act", "sliding_window"),
        {**_ROTATION, "tie_word_embeddings": False},
    ),
    "qwen2": Rules(
        _LLAMA_EXTENTS,
        ("rms_norm_eps", "hidden_act"),
        {**_ROTATION, "tie_word_embeddings": False, "use_sliding_window": False},
    ),
    "qwen3": Rules(
        (*_LLAMA_EXTENTS, "head_dim"),
        ("rms_norm_eps", "hidden_act"),
        {
            **_ROTATION,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "use_sliding_window": False,
        },
    ),
    "gpt2": Rules(
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
"""Every architecture that is read, by its `model_type`."""

_FLAG: Final = (bool, "true or false")
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    **dict.fromkeys(
        ("tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window"), _FLAG
    ),
    "rope_scaling": (dict | None, "an object or null"),
    "sliding_window": (int | None, "a number or null"),
    "n_inner": (int | None, "a number or null"),
    "hidden_act": (str, "a text"),
    "activation_function": (str, "a text"),
}

# Options that change what is computed and that nothing here computes.
_REFUSED: Final[Mapping[str, Any]] = {
    "quantization_config": None,
    "partial_rotary_factor": 1.0,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}


def known_architecture(where: str, name: Any) -> str:
    """The architecture, if it is one that is read here."""
    if isinstance(name, str) and name in RULES:
        return name
    raise UnsupportedError(
        f'{where}: expected a known architecture, got "{name}"', f"one of: {', '.join(RULES)}"
    )


def checked(
    where: str, architecture: str, found: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A configuration with every key of its architecture, and notes of those it left out."""
    rules = RULES[architecture]
    config = {**found, "model_type": architecture}
    _unfold_rotation(config)
    notes = []
    for key, value in rules.defaults.items():
        if key not in config:
            config[key] = value
            notes.append(f"{where} has no {key}: {value}, as transformers reads it")
    for key in (*rules.extents, *rules.required):
        if key not in config:
            raise InputError(
                f'{where}: expected the key "{key}", got none',
                f"a {architecture} model cannot be read without it",
            )
    for key in rules.extents:
        _check_extent(where, key, config[key])
    for key in ("rms_norm_eps", "layer_norm_epsilon", "rope_theta"):
        if key in config:
            _check_positive(where, key, config[key])
    for key, (kinds, expected) in _KINDS.items():
        if key in config and not isinstance(config[key], kinds):
            raise InputError(f"{where}: expected {key} as {expected}, got {config[key]!r}")
    for key, value in _REFUSED.items():
        if config.get(key, value) != value:
            raise UnsupportedError(f"{where}: expected {key} {value}, got {config[key]}")
    notes += _derive_heads(where, architecture, config)
    return config, tuple(notes)


def _unfold_rotation(config: dict[str, Any]) -> None:
    """Newer files hold the base and the scaling of the rotation in one object."""
    rotation = config.get("rope_parameters")
    if not isinstance(rotation, dict):
        return
    scaling = dict(rotation)
    if "rope_theta" in scaling:
        config.setdefault("rope_theta", scaling.pop("rope_theta"))
    kind = scaling.get("rope_type", "default")
    config.setdefault("rope_scaling", None if kind == "default" else scaling)


def _check_extent(where: str, key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise InputError(f"{where}: expected {key} as an integer from 1 to 2^31 - 1, got {value!r}")


def _check_positive(where: str, key: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < 1e38:
        raise InputError(f"{where}: expected {key} as a positive number, got {value!r}")


def _derive_heads(where: str, architecture: str, config: dict[str, Any]) -> list[str]:
    """Head size, heads per key head: checked, and filled in where they follow."""
    if architecture == "gpt2":
        width, heads = config["n_embd"], config["n_head"]
        config["n_inner"] = config["n_inner"] or 4 * width
        _check_extent(where, "n_inner", config["n_inner"])
        _check_divides(where, "n_embd", width, "n_head", heads)
        return []
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    _check_divides(where, "num_attention_heads", heads, "num_key_value_heads", kv_heads)
    if config.get("head_dim") is not None:
        _check_extent(where, "head_dim", config["head_dim"])
        return []
    _check_divides(where, "hidden_size", config["hidden_size"], "num_attention_heads", heads)
    config["head_dim"] = config["hidden_size"] // heads
    return [f"{where} has no head_dim: {config['head_dim']}, hidden_size over num_attention_heads"]


def _check_divides(where: str, name: str, value: int, by: str, divisor: int) -> None:
    if value % divisor:
        raise InputError(f"{where}: expected {name} as a multiple of {by} {divisor}, got {value}")
