"""A decoder: embeddings, blocks, and a head; what differs between architectures is in its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay import ops
from assay.engine.models.layers import Block, Linear, Norm
from assay.engine.models.model_shape import ModelShape
from assay.engine.runner.step_buffers import Step


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Model:
    """Weights in a device's memory and the operations over them; nothing here changes."""

    architecture: str
    shape: ModelShape
    embedding: ops.Weights
    positions: ops.Weights | None
    """Learned positions, where an architecture has them."""
    blocks: Sequence[Block]
    norm: Norm
    head: Linear
    weight_format: str
    weight_bytes: int
    """Bytes of all matrices."""
    notes: tuple[str, ...] = ()

    @property
    def streamed_bytes(self) -> int:
        """Bytes of weights that one decoding step must read: all that are not looked up by row."""
        looked_up = 0
        for table in (self.embedding, self.positions):
            if table is not None and table is not self.head.weights:
                looked_up += table.nbytes
        return self.weight_bytes - looked_up

    def run(self, step: Step) -> None:
        """Queue everything from token numbers to logits of the rows that are sampled."""
        ops.embedding(
            step.ids, self.embedding, step.hidden, sampled_tokens=step.chosen, label="embedding"
        )
        if self.positions is not None:
            ops.embedding(step.positions, self.positions, step.middle, label="positions")
            # A norm adds to its residual in place, which is all that is wanted of it here.
            first = self.blocks[0].attention_norm
            first.run(step.middle, step.normed, "add_positions", residual=step.hidden)
        for index, block in enumerate(self.blocks):
            label = f"layers.{index}"
            block.attention.run(step, index, f"{label}.attention", block.attention_norm)
            block.mlp.run(step, f"{label}.mlp", block.mlp_norm)
        if step.samples == 0:
            return
        rows = step.hidden
        if self.norm.centered:
            self.norm.run(rows, step.normed, "norm")
            rows = step.normed
        if step.sample_rows is not None:
            ops.gather_rows(rows, step.sample_rows, step.sampled, label="sampled_rows")
            rows = step.sampled
        norm = None if self.norm.centered else self.norm
        self.head.run(rows, step.logits, "head", step, norm=norm)
