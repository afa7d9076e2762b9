"""The dimensions of a model, independent of its configuration's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ModelShape(NamedTuple):
    """Dimensions that decide how much memory a model and its KV cache take."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    """Maximum positions: longer texts cannot be computed."""

    @property
    def kv_values(self) -> int:
        """Elements that one token adds to the KV cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def llama_shape(config: Mapping[str, Any]) -> ModelShape:
    """The dimensions of the Llama family, from its configuration keys."""
    context = config["max_position_embeddings"]
    # Sliding-window attention equals full attention only while the text fits into the window.
    window = config.get("sliding_window")
    if window is not None:
        context = min(context, window)
    return ModelShape(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        inner=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        context=context,
    )
