"""LoRA adapters of a model: their factors in device memory, stacked, and the layers that use them.

Each row of a batch has the index of its adapter, 0 for none, whose factors are zero. The low-rank
products are grouped GEMMs: rows are grouped by adapter, as a mixture of experts groups them by
expert. Layers fused from several matrices have one pair of factors, B block-diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assay import ops
from assay.engine.architectures import decoder as spec
from assay.engine.architectures.registry import ARCHITECTURES
from assay.engine.loading import ModelFiles
from assay.engine.loading.lora_adapter import LoraAdapter, LowRank
from assay.engine.models.adapted_linear import AdapterFactors
from assay.engine.models.head_padding import HeadPadding
from assay.engine.models.layers import Attention, Block, Linear, Mlp
from assay.engine.models.model import Model
from assay.engine.models.model_shape import AdapterShape
from assay.engine.models.weights import pack_values
from assay.errors import InputError, UnsupportedError
from assay.lazy_import import np
from assay.runtime import Device

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ADAPTERS = 64

GPU_RANKS, CPU_RANKS = 64, 8
"""Ranks are padded with zeros to a multiple of these, which the kernels' tiles are."""

ACTIVATIONS = (None, "swiglu", "silu", "gelu", "gelu_tanh", "relu")
"""Activations that exist as operations of their own: an adapter adds to what comes before."""


def check_adapters(files: ModelFiles, adapters: Sequence[LoraAdapter]) -> None:
    """Refuse adapters that do not fit the model, before weights are loaded."""
    if len(adapters) > MAX_ADAPTERS:
        raise InputError(f"adapters: expected at most {MAX_ADAPTERS}, got {len(adapters)}")
    decoder = ARCHITECTURES[files.architecture].decoder(files.config)
    if adapters:
        _head_dim(decoder, files)
        _check_modules(decoder, adapters)


def with_adapters(
    model: Model, files: ModelFiles, adapters: Sequence[LoraAdapter | None], device: Device
) -> Model:
    """The model with these adapters, which are checked; its weights are shared, not copied.

    The place of an adapter that was unloaded (None) has factors of zero.
    """
    decoder = ARCHITECTURES[files.architecture].decoder(files.config)
    size = _head_dim(decoder, files)
    modules = [
        {} if adapter is None else _with_rows_of(files, adapter.modules, size)
        for adapter in adapters
    ]
    stacker = _Stacker(modules, device, HeadPadding(size, model.shape.head_dim))
    blocks = [
        stacker.block(block, declared)
        for block, declared in zip(model.blocks, decoder.blocks, strict=True)
    ]
    shape = model.shape._replace(adapters=stacker.shape())
    return replace(model, blocks=blocks, shape=shape)


def _head_dim(decoder: spec.Decoder, files: ModelFiles) -> int:
    attention = decoder.blocks[0].attention
    if not isinstance(attention, spec.Attention):
        raise UnsupportedError(
            f"adapters: expected a model whose attention has keys and values, got "
            f"{files.architecture}"
        )
    return attention.head_dim


def _linears(block: spec.Block) -> Iterator[tuple[spec.Linear, str | None]]:
    """The layers of a block that adapters can change, with their activations."""
    if isinstance(block.attention, spec.Attention):
        yield block.attention.qkv, None
        yield block.attention.output, None
    if isinstance(block.mlp, spec.Mlp):
        yield block.mlp.up, block.mlp.activation
        yield block.mlp.down, None


def _check_modules(decoder: spec.Decoder, adapters: Sequence[LoraAdapter]) -> None:
    """Refuse modules that the model does not have, or whose shapes or activations differ."""
    known, activations = {}, {}
    for block in decoder.blocks:
        for linear, activation in _linears(block):
            for name, rows in zip(linear.names, linear.rows, strict=True):
                known[name], activations[name] = (rows, linear.inputs), activation
    for adapter in adapters:
        for module, factors in adapter.modules.items():
            if module not in known:
                raise UnsupportedError(
                    f'adapter "{adapter.name}": expected linear layers of attention and MLP, got '
                    f'"{module}"',
                    f"for example {next(iter(known))}",
                )
            shape = (factors.b.shape[0], factors.a.shape[1])
            if shape != known[module]:
                raise InputError(
                    f'adapter "{adapter.name}": "{module}": expected {known[module][0]} outputs of '
                    f"{known[module][1]} inputs, got {shape[0]} of {shape[1]}",
                    "an adapter fits the model that it was trained on",
                )
            if activations[module] not in ACTIVATIONS:
                raise UnsupportedError(
                    f'adapter "{adapter.name}": "{module}": layers with the activation '
                    f"{activations[module]} are not supported"
                )


def _with_rows_of(
    files: ModelFiles, modules: Mapping[str, LowRank], head_dim: int
) -> dict[str, LowRank]:
    """The factors with the rows of each head in the order of the file.

    llama.cpp stores pairs that RoPE rotates next to each other, PEFT half a head apart.
    """

    def reordered(b: NDArray[np.float32]) -> NDArray[np.float32]:
        halves = b.reshape(-1, 2, head_dim // 2, b.shape[1])
        return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(b.shape))

    return {
        module: LowRank(pair.a, reordered(pair.b))
        if files.tensors[f"{module}.weight"].permuted
        else pair
        for module, pair in modules.items()
    }


class _Stacker:
    """Packs the factors of all adapters, layer by layer."""

    def __init__(
        self, adapters: Sequence[Mapping[str, LowRank]], device: Device, padding: HeadPadding
    ) -> None:
        self._adapters = adapters
        self._device = device
        self._padding = padding
        self._format = "bf16" if device.capabilities.is_gpu else "f32"
        self._unit = GPU_RANKS if device.capabilities.is_gpu else CPU_RANKS
        self._rank = self._outputs = self._activated = 1

    def shape(self) -> AdapterShape:
        """The widths that the buffers of a step need."""
        return AdapterShape(len(self._adapters), self._rank, self._outputs, self._activated)

    def block(self, block: Block, declared: spec.Block) -> Block:
        rows = self._padding.rows if self._padding.is_needed else None
        columns = self._padding.columns if self._padding.is_needed else None
        attention, layers = block.attention, declared.attention
        if isinstance(attention, Attention) and isinstance(layers, spec.Attention):
            attention = attention._replace(
                qkv=self._linear(attention.qkv, layers.qkv, rows=rows),
                output=self._linear(attention.output, layers.output, columns=columns),
            )
        mlp = block.mlp
        if isinstance(mlp, Mlp) and isinstance(declared.mlp, spec.Mlp):
            mlp = mlp._replace(
                up=self._linear(mlp.up, declared.mlp.up),
                down=self._linear(mlp.down, declared.mlp.down),
            )
        return block._replace(attention=attention, mlp=mlp)

    def _linear(
        self,
        linear: Linear,
        declared: spec.Linear,
        *,
        rows: Callable[[Any], Any] | None = None,
        columns: Callable[[Any], Any] | None = None,
    ) -> Linear:
        if not any(module in adapter for adapter in self._adapters for module in declared.names):
            return linear
        pairs = [_fused(adapter, declared) for adapter in self._adapters]
        rank = max(pair.a.shape[0] for pair in pairs)
        rank = -(-rank // self._unit) * self._unit
        a = np.zeros((len(pairs) + 1, rank, declared.inputs), np.float32)
        b = np.zeros((len(pairs) + 1, declared.outputs, rank), np.float32)
        for index, pair in enumerate(pairs, 1):
            a[index, : pair.a.shape[0]] = pair.a
            b[index, :, : pair.b.shape[1]] = pair.b
        a, b = a.reshape(-1, declared.inputs), b.reshape(-1, rank)
        factors = AdapterFactors(
            self._packed(a if columns is None else columns(a)),
            self._packed(b if rows is None else rows(b)),
            len(pairs) + 1,
        )
        outputs = factors.b.shape[0] // factors.adapters
        self._rank = max(self._rank, rank)
        self._outputs = max(self._outputs, outputs)
        if linear.activation is not None:
            self._activated = max(self._activated, outputs)
        return linear._replace(adapters=factors)

    def _packed(self, values: NDArray[np.float32]) -> ops.Weights:
        return pack_values(np.ascontiguousarray(values), self._format, self._device)


def _fused(adapter: Mapping[str, LowRank], declared: spec.Linear) -> LowRank:
    """One pair of factors for all matrices of a layer, B block-diagonal."""
    parts = [adapter.get(name) for name in declared.names]
    rank = sum(part.a.shape[0] for part in parts if part is not None)
    a = np.zeros((rank, declared.inputs), np.float32)
    b = np.zeros((declared.outputs, rank), np.float32)
    first = row = 0
    for part, rows in zip(parts, declared.rows, strict=True):
        if part is not None:
            end = first + part.a.shape[0]
            a[first:end] = part.a
            b[row : row + rows, first:end] = part.b
            first = end
        row += rows
    return LowRank(a, b)
