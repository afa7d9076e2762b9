"""An encoder as data: layers of bidirectional attention whose outputs become an embedding.

Norms stand behind attention and MLP, as in BERT (Devlin et al. 2018, arXiv:1810.04805).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from assay.engine.architectures.decoder import Linear, Norm, Shapes
from assay.engine.architectures.schema import Config, ConfigSchema


@dataclass(frozen=True, slots=True)
class EncoderBlock:
    """Attention and MLP, each added to its input and normed."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    mlp_norm: Norm
    activation: str

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes."""
        for linear in (self.query, self.key, self.value, self.output, self.up, self.down):
            yield from linear.tensors()
        yield from self.attention_norm.tensors()
        yield from self.mlp_norm.tensors()


@dataclass(frozen=True, slots=True)
class Encoder:
    """A whole encoder."""

    vocabulary: int
    hidden: int
    heads: int
    context: int
    """The most tokens of a text."""
    epsilon: float
    embedding: str
    """Tensor name without ".weight", as those of the other tables."""
    positions: str
    first_position: int
    """The row of the first token: RoBERTa's first rows stand for padding."""
    types: str
    """The table of token types, of which every token has the first."""
    type_count: int
    norm: Norm
    """Of the sum of the three."""
    blocks: tuple[EncoderBlock, ...]

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    def tensors(self) -> Shapes:
        """Every tensor of the model; matrices are outputs by inputs."""
        shapes: Shapes = {
            f"{self.embedding}.weight": (self.vocabulary, self.hidden),
            f"{self.positions}.weight": (self.first_position + self.context, self.hidden),
            f"{self.types}.weight": (self.type_count, self.hidden),
        }
        shapes.update(self.norm.tensors())
        for block in self.blocks:
            shapes.update(block.tensors())
        return shapes


class EncoderArchitecture(NamedTuple):
    """One architecture of encoders: its configuration, its layers, and a small example."""

    models: str
    """Published models, for the table of what runs."""
    schema: ConfigSchema
    encoder: Callable[[Config], Encoder]
    small: Mapping[str, Any]
    prefix: str
    """How names begin where the file has heads besides the encoder."""
    gguf: str | None = None
    ignored: tuple[str, ...] = ()
    """Keys that files of this type have and `transformers` does not read for hidden states."""
