"""A decoder-only transformer: embedding, blocks, final norm and output head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from assay import ops
from assay.engine.models.layer_stream import LayerStream
from assay.engine.models.layers import Block, Linear
from assay.engine.models.model_shape import ModelShape
from assay.engine.models.norms import Norm
from assay.engine.models.step_buffers import StepBuffers


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Model:
    """Weights in device memory and the forward pass over them; immutable."""

    architecture: str
    shape: ModelShape
    embedding: ops.Weights
    positions: ops.Weights | None
    """Learned position embeddings, where an architecture has them."""
    blocks: Sequence[Block]
    norm: Norm
    head: Linear
    embedding_scale: float
    logits_scale: float
    logits_softcap: float
    weight_format: str
    weight_bytes: int
    """Bytes of all weight matrices."""
    notes: tuple[str, ...] = ()
    layer_stream: LayerStream | None = None
    """Layers whose weights are copied from host memory in every step, if there are any."""

    @property
    def streamed_bytes(self) -> int:
        """Bytes of weights that the decode step of one sequence reads."""
        experts = self.shape.experts
        return self.step_bytes(experts.top_k if experts else 0)

    def step_bytes(self, touched_experts: float) -> int:
        """Bytes of weights that a decode step reads which touches so many experts in each layer.

        Tables that are gathered by row are not counted.
        """
        gathered = 0
        for table in (self.embedding, self.positions):
            if table is not None and table is not self.head.weights:
                gathered += table.nbytes
        experts = self.shape.experts
        untouched = 0.0
        if experts is not None:
            untouched = 1.0 - touched_experts / experts.experts
        routed = sum(block.mlp.routed_bytes for block in self.blocks if block.mlp is not None)
        return self.weight_bytes - gathered - round(untouched * routed)

    @property
    def last_hidden(self) -> str:
        """The buffer that holds the residual stream after the last layer."""
        return "attention_residual" if self._ends_apart(len(self.blocks)) else "hidden"

    def _ends_apart(self, layers: int) -> bool:
        """Whether the residual stream is in the other buffer after so many layers."""
        return sum(block.mlp is None for block in self.blocks[:layers]) % 2 == 1

    def forward(self, step: StepBuffers) -> None:
        """Queue the forward pass, from input IDs to the logits of the sampled rows."""
        for part in self.parts(step, 1):
            part()

    def parts(self, step: StepBuffers, count: int) -> list[Callable[[], None]]:
        """The forward pass as functions to call in order, with about as many blocks each.

        There are `count` of them, or fewer in a model of fewer blocks.
        """
        layers = len(self.blocks)
        count = max(1, min(count, layers))
        return [
            partial(self._queue, step, layers * part // count, layers * (part + 1) // count)
            for part in range(count)
        ]

    def _queue(self, step: StepBuffers, start: int, stop: int) -> None:
        """Queue some of the blocks, with what comes before the first or after the last."""
        stream = self.layer_stream
        if stream is not None:
            stream.begin_part(is_first=start == 0)
        if start == 0:
            self._embed(step)
        if self._ends_apart(start):
            step = _swapped(step)
        for index in range(start, stop):
            if stream is not None:
                stream.begin_layer(index)
            block, label = self.blocks[index], f"layers.{index}"
            block.attention.forward(step, index, f"{label}.attention", block)
            if block.mlp is not None:
                if index == len(self.blocks) - 1 and _leaves_rows(step, block):
                    step = _sampled(step)
                block.mlp.forward(step, f"{label}.mlp", block)
            else:
                # The next layer reads what this one wrote.
                step = _swapped(step)
        if stop == len(self.blocks) and step.shape.num_samples:
            self._project(step)

    def _embed(self, step: StepBuffers) -> None:
        """Queue the embeddings of the input IDs."""
        ops.embedding(
            step.input_ids,
            self.embedding,
            step.hidden,
            sampled_tokens=step.previous_tokens,
            label="embedding",
        )
        if self.embedding_scale != 1.0:
            ops.scale(step.hidden, self.embedding_scale, label="embedding.scale")
        first = self.blocks[0].attention_norm
        if self.positions is not None and first is not None:
            ops.embedding(
                step.positions, self.positions, step.attention_residual, label="positions"
            )
            # LayerNorm adds its input to the residual in place; its output is not used.
            first.forward(
                step.attention_residual, step.normed, "add_positions", residual=step.hidden
            )

    def _project(self, step: StepBuffers) -> None:
        """Queue the logits of the sampled rows."""
        rows = step.hidden
        if self.norm.is_layer_norm:
            self.norm.forward(rows, step.normed, "norm")
            rows = step.normed
        if step.logits_indices is not None:
            ops.gather_rows(rows, step.logits_indices, step.sampled_hidden, label="sampled_rows")
            rows = step.sampled_hidden
        norm = None if self.norm.is_layer_norm else self.norm
        self.head.forward(rows, step.logits, "head", step, norm=norm)
        if self.logits_scale != 1.0 or self.logits_softcap:
            ops.scale(
                step.logits, self.logits_scale, softcap=self.logits_softcap, label="head.scale"
            )


def _leaves_rows(step: StepBuffers, block: Block) -> bool:
    """Whether rows of the step are needed no more behind the last attention.

    Only sampled rows have logits: the last MLP of a chunk of prefill would be computed for nothing.
    Adapters are chosen by row, and a parallel MLP reads what attention read: they keep all rows.
    """
    gathers = step.logits_indices is not None and 0 < step.shape.num_samples < step.shape.num_tokens
    return gathers and step.adapters is None and not block.parallel


def _sampled(step: StepBuffers) -> StepBuffers:
    """Queue the gather of the sampled rows; returns the step of them alone."""
    assert step.logits_indices is not None
    ops.gather_rows(
        step.attention_residual, step.logits_indices, step.sampled_hidden, label="sampled_rows"
    )
    return step.of_samples()


def _swapped(step: StepBuffers) -> StepBuffers:
    """The buffers of the next layer, where a layer has no MLP behind it."""
    return step._replace(hidden=step.attention_residual, attention_residual=step.hidden)
