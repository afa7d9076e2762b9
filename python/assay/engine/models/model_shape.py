"""The extents of a model, whatever words its configuration has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ModelShape(NamedTuple):
    """Extents that decide how much memory a model and its cache take."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    """Positions that the model knows; text beyond it cannot be read."""

    @property
    def kv_values(self) -> int:
        """Numbers that one token adds to the KV cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def llama_shape(config: Mapping[str, Any]) -> ModelShape:
    """The extents of the Llama family, as its configurations spell them."""
    context = config["max_position_embeddings"]
    # Attention over a window equals full attention while the text fits into it, and only then.
    window = config.get("sliding_window")
    if window is not None and config.get("use_sliding_window", True):
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
