"""What an architecture states about itself, and the keys that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from assay.engine.architectures.decoder import Decoder
from assay.errors import UnsupportedError

Config = Mapping[str, Any]


class ConfigSchema(NamedTuple):
    """Keys of one architecture: dimensions (positive integers), other required keys, defaults."""

    dimensions: tuple[str, ...]
    required: tuple[str, ...]
    defaults: Mapping[str, Any]

    @property
    def keys(self) -> frozenset[str]:
        """Every key that the architecture reads."""
        return frozenset((*self.dimensions, *self.required, *self.defaults))


class Architecture(NamedTuple):
    """One architecture: its configuration, its layers, and a small example."""

    models: str
    """Published models, for the table of what runs."""
    schema: ConfigSchema
    decoder: Callable[[Config], Decoder]
    """The layers of a validated configuration."""
    small: Mapping[str, Any]
    """What differs from the smallest Llama in a synthetic model."""
    layers_key: str = "num_hidden_layers"
    norm_offset: float = 0.0
    """Added to the stored weights of RMSNorms: Gemma stores them less one."""
    gguf: str | None = None
    """The name of the architecture in GGUF files, where they are read."""
    model_code: tuple[str, ...] = ()
    """Classes of the publisher's own code that compute what `transformers` does for this type."""
    ignored: tuple[str, ...] = ()
    """Keys that files of this type have and `transformers` does not read for logits."""


LLAMA_DIMENSIONS: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)
ROPE: Final[Mapping[str, Any]] = {"rope_theta": 10000.0, "rope_scaling": None}


def llama_schema(
    *dimensions: str, required: tuple[str, ...] = ("rms_norm_eps", "hidden_act"), **defaults: Any
) -> ConfigSchema:
    """Llama's keys, further dimensions, and defaults besides those of RoPE and of the head."""
    return ConfigSchema(
        (*LLAMA_DIMENSIONS, *dimensions),
        required,
        {**ROPE, "tie_word_embeddings": False, **defaults},
    )


GATED: Final = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu_pytorch_tanh": "geglu_tanh",
    "gelu_new": "geglu_tanh",
    "gelu": "geglu",
}
"""Gated activations by the name of their gate in configurations."""

ELEMENTWISE: Final = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
}
"""Activations without a gate by their name in configurations."""


def activation(config: Config, key: str, known: Mapping[str, str]) -> str:
    """The activation that a key names."""
    name = config[key]
    if name not in known:
        raise UnsupportedError(
            f'config.json: expected {key} {" or ".join(known)}, got "{name}"',
            "the engine has no kernel for another activation",
        )
    return known[name]


def uniform_windows(config: Config) -> list[int]:
    """The same window in every layer, or none."""
    return [config.get("sliding_window") or 0] * config["num_hidden_layers"]


def layer_windows(config: Config, default: Callable[[int], bool]) -> list[int]:
    """The window of each layer, 0 where it sees everything.

    `layer_types` decides; where a file has none, `default` says which layers have the window.
    """
    window = config.get("sliding_window") or 0
    kinds = config.get("layer_types")
    count = config["num_hidden_layers"]
    if kinds is None:
        return [window if default(layer) else 0 for layer in range(count)]
    return [window if kind == "sliding_attention" else 0 for kind in kinds]
