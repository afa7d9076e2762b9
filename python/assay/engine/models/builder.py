"""From an architecture's data and a file's tensors to a model in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay import ops
from assay.engine.architectures import decoder as spec
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.models.experts import Experts
from assay.engine.models.head_padding import HeadPadding, head_padding
from assay.engine.models.latent_attention import LatentAttention
from assay.engine.models.layer_stream import LayerStream, streamed_layers
from assay.engine.models.layers import Attention, Block, Linear, Mlp, TokenMixer
from assay.engine.models.model import Model
from assay.engine.models.model_shape import model_shape
from assay.engine.models.norms import Norm
from assay.engine.models.rotary_embedding import RopeTables
from assay.engine.models.state_space import StateSpace, taps_first
from assay.engine.models.weights import Change, WeightSource
from assay.lazy_import import np
from assay.runtime import Array

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class HeadParts(NamedTuple):
    """How many heads there are, and the rows of the two parts of each."""

    heads: int
    first_rows: int
    second_rows: int

    def first(self, values: Matrix) -> Matrix:
        """The first part of every head, one below the other."""
        return self._rows(self._by_head(values)[:, : self.first_rows])

    def second(self, values: Matrix) -> Matrix:
        """The second part of every head."""
        return self._rows(self._by_head(values)[:, self.first_rows :])

    def first_transposed(self, values: Matrix) -> Matrix:
        """The first part of every head, each transposed."""
        return self._rows(self._by_head(values)[:, : self.first_rows].transpose(0, 2, 1))

    def _by_head(self, values: Matrix) -> Matrix:
        return values.reshape(self.heads, self.first_rows + self.second_rows, -1)

    @staticmethod
    def _rows(values: Matrix) -> Matrix:
        return np.ascontiguousarray(values.reshape(-1, values.shape[2]))


def build(
    source: WeightSource, head_dims: Sequence[int] | None = None, *, offload_layers: int = 0
) -> Model:
    """The model of a file; heads are padded to one of these sizes, by default the device's.

    The weights of `offload_layers` layers stay in host memory.
    """
    files = source.files
    if head_dims is None:
        head_dims = source.device.capabilities.attention_head_dims
    architecture = ARCHITECTURES[files.architecture]
    decoder = architecture.decoder(files.config)
    offset = 0.0 if files.norms_include_offset else architecture.norm_offset
    shape = model_shape(decoder)
    # Latent attention and state-space layers have kernels of their own.
    padding = head_padding(shape.head_dim, None if shape.latent or shape.state else head_dims)
    if padding.is_needed:
        source.notes.append(f"heads of {padding.size} computed as heads of {padding.padded}")
    builder = _Builder(source, decoder, offset, padding)
    embedding = source.table(decoder.embedding)
    stream = LayerStream(source.device) if offload_layers else None
    offloaded = streamed_layers(len(decoder.blocks), offload_layers)
    blocks = []
    for index, description in enumerate(decoder.blocks):
        block = builder.block(description)
        if stream is not None and index in offloaded:
            block = stream.take(index, block)
        blocks.append(block)
    if stream is not None:
        source.notes.append(
            f"{stream.num_layers} of {len(blocks)} layers are copied from host memory in every step: "
            f"{stream.host_bytes / 1e6:.0f} MB"
        )
    head = embedding if decoder.head is None else source.matrix(decoder.head)
    return Model(
        architecture=files.architecture,
        shape=shape._replace(head_dim=padding.padded, splits=tuple(builder.splits)),
        embedding=embedding,
        positions=None if decoder.positions is None else source.table(decoder.positions),
        blocks=blocks,
        norm=builder.norm(decoder.norm),
        head=Linear(head),
        embedding_scale=decoder.embedding_scale,
        logits_scale=decoder.logits_scale,
        logits_softcap=decoder.logits_softcap,
        weight_format=source.format or _stored_format(blocks[0]),
        weight_bytes=source.nbytes,
        notes=tuple(source.notes),
        layer_stream=stream,
    )


def _stored_format(block: Block) -> str:
    """The format of a matrix that every layer has."""
    if block.mlp is not None:
        return block.mlp.down.weights.format
    return block.attention.output.weights.format


class _Builder:
    """Builds layers from their descriptions."""

    def __init__(
        self, source: WeightSource, decoder: spec.Decoder, norm_offset: float, padding: HeadPadding
    ) -> None:
        self._source = source
        self._padding = padding
        self._decoder = decoder
        self._norm_offset = norm_offset
        self._ropes = RopeTables(source.files, source.device, decoder.context)
        self.splits: list[tuple[int, ...]] = []
        """Outputs of the parts of layers whose matrices have several formats, each once."""

    def block(self, block: spec.Block) -> Block:
        return Block(
            attention_norm=self._optional_norm(block.attention_norm),
            attention=self._mixer(block.attention),
            attention_post_norm=self._optional_norm(block.attention_post_norm),
            mlp_norm=self._optional_norm(block.mlp_norm),
            mlp=None if block.mlp is None else self._any_mlp(block.mlp),
            mlp_post_norm=self._optional_norm(block.mlp_post_norm),
            residual_scale=self._decoder.residual_scale,
            parallel=block.parallel,
        )

    def _mixer(
        self, mixer: spec.Attention | spec.LatentAttention | spec.StateSpace
    ) -> Attention | TokenMixer:
        if isinstance(mixer, spec.Attention):
            return self._attention(mixer)
        if isinstance(mixer, spec.LatentAttention):
            return self._latent_attention(mixer)
        return self._state_space(mixer)

    def _any_mlp(self, mlp: spec.Mlp | spec.Experts) -> Mlp | Experts:
        return self._mlp(mlp) if isinstance(mlp, spec.Mlp) else self._experts(mlp)

    def norm(self, norm: spec.Norm) -> Norm:
        offset = 0.0 if norm.layer_norm else self._norm_offset
        weight = self._source.vector(f"{norm.name}.weight", offset=offset)
        bias = self._source.vector(f"{norm.name}.bias") if norm.bias else None
        epsilon = self._decoder.epsilon if norm.epsilon is None else norm.epsilon
        return Norm(weight, epsilon, bias, norm.layer_norm)

    def _optional_norm(self, norm: spec.Norm | None) -> Norm | None:
        return None if norm is None else self.norm(norm)

    def _linear(
        self,
        linear: spec.Linear,
        activation: str | None = None,
        *,
        rows: Change | None = None,
        columns: Change | None = None,
        unquantized: bool = False,
    ) -> Linear:
        bias = None
        if linear.bias:
            names = (f"{name}.bias" for name in linear.names)
            bias = self._source.vector(*names, change=rows)
        matrix = self._source.matrix(*linear.names, change=rows or columns, unquantized=unquantized)
        return Linear(matrix, bias, activation)

    def _parted_linear(self, linear: spec.Linear) -> Linear:
        """A layer whose matrices stay in the formats of the file, where these differ.

        Files of llama.cpp have more bits for values than for queries and keys in some layers.
        """
        runs = self._source.runs(*linear.names)
        if len(runs) == 1:
            return self._linear(linear)
        bias = None
        if linear.bias:
            bias = self._source.vector(*(f"{name}.bias" for name in linear.names))
        parts = [self._source.matrix(*run) for run in runs]
        split = tuple(part.shape[0] for part in parts)
        if split not in self.splits:
            self.splits.append(split)
        return Linear(parts[0], bias, rest=tuple(parts[1:]))

    def _attention(self, attention: spec.Attention) -> Attention:
        norms = attention.query_norm, attention.key_norm
        padding, is_padded = self._padding, self._padding.is_needed
        weights = [None if norm is None else self._head_norm(norm) for norm in norms]
        scale = attention.scale
        if is_padded and scale is None:
            scale = float(attention.head_dim**-0.5)
        by_head = norms[0] is not None and norms[0].width == attention.head_dim
        # A single head is all heads together, too.
        return Attention(
            qkv=self._linear(attention.qkv, rows=padding.rows)
            if is_padded
            else self._parted_linear(attention.qkv),
            output=self._linear(attention.output, columns=padding.columns if is_padded else None),
            heads=attention.heads,
            kv_heads=attention.kv_heads,
            head_dim=padding.padded,
            rotation=self._rope(attention.rotary),
            query_norm=weights[0] if by_head else None,
            key_norm=weights[1] if by_head else None,
            query_row_norm=None if by_head else weights[0],
            key_row_norm=None if by_head else weights[1],
            epsilon=self._decoder.epsilon * padding.share,
            scale=scale,
            window=attention.window,
            softcap=attention.softcap,
            sinks=None if attention.sinks is None else self._source.float_vector(attention.sinks),
        )

    def _latent_attention(self, attention: spec.LatentAttention) -> LatentAttention:
        query = HeadParts(attention.heads, attention.nope_dim, attention.rope_dim)
        kv = HeadParts(attention.heads, attention.nope_dim, attention.value_dim)
        down, down_norm = attention.query_down, attention.query_norm
        return LatentAttention(
            query_down=None if down is None else self._linear(down),
            query_down_norm=self._optional_norm(down_norm),
            query_nope=self._linear(attention.query, rows=query.first),
            query_rope=self._linear(attention.query, rows=query.second),
            kv_down=self._linear(attention.kv_down),
            kv_norm=self.norm(attention.kv_norm),
            key_up=self._source.matrix(*attention.kv_up.names, change=kv.first_transposed),
            value_up=self._source.matrix(*attention.kv_up.names, change=kv.second),
            output=self._linear(attention.output),
            heads=attention.heads,
            rotation=self._ropes.table(attention.rotary),
            scale=attention.scale,
        )

    def _state_space(self, layer: spec.StateSpace) -> StateSpace:
        source, name = self._source, layer.convolution
        return StateSpace(
            input=self._linear(layer.input),
            convolution=source.vector(f"{name}.weight", change=taps_first),
            convolution_bias=source.vector(f"{name}.bias") if layer.convolution_bias else None,
            a_log=source.float_vector(f"{layer.scan}.A_log"),
            d=source.float_vector(f"{layer.scan}.D"),
            dt_bias=source.float_vector(f"{layer.scan}.dt_bias"),
            norm=self.norm(layer.norm),
            output=self._linear(layer.output),
            groups=layer.groups,
            dt_limit=layer.dt_limit,
        )

    def _head_norm(self, norm: spec.Norm) -> Array:
        change = self._padding.norm if self._padding.is_needed else None
        name = f"{norm.name}.weight"
        return self._source.vector(name, offset=self._norm_offset, change=change)

    def _rope(self, rotary: spec.Rotary | None) -> ops.RopeTable | None:
        return None if rotary is None else self._ropes.table(rotary)

    def _mlp(self, mlp: spec.Mlp) -> Mlp:
        return Mlp(
            up=self._linear(mlp.up, mlp.activation),
            down=self._linear(mlp.down),
            name="gate_up" if len(mlp.up.names) > 1 else "up",
        )

    def _expert_linear(
        self, linear: spec.Linear | spec.StackedLinear, activation: str | None = None
    ) -> Linear:
        if isinstance(linear, spec.Linear):
            return self._linear(linear, activation)
        weights, bias = self._source.stacked(linear)
        return Linear(weights, bias, activation)

    def _experts(self, experts: spec.Experts) -> Experts:
        routing = experts.routing
        bias = None if routing.bias is None else self._source.float_vector(routing.bias)
        return Experts(
            routing=routing,
            routing_bias=bias,
            # Its bytes are few, and a rounded logit may choose another expert.
            router=self._linear(experts.router, unquantized=True),
            up=self._expert_linear(experts.up, experts.activation),
            down=self._expert_linear(experts.down),
            shared=None if experts.shared is None else self._mlp(experts.shared),
            shared_gate=None if experts.shared_gate is None else self._linear(experts.shared_gate),
        )
