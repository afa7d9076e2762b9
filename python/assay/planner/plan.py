"""The operations of one step in order, as an engine runs them: before, in and after the layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from assay.planner import formats
from assay.planner.operations import Load, Operation, after_layers, before_layers, vllm_layer
from assay.planner.own_engine import own_first, own_last, own_layer
from assay.planner.specs import BatchConfig, LayerSpec, ModelSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """Operations of a step."""

    phase: str
    load: Load
    first: tuple[Operation, ...]
    layers: tuple[tuple[Operation, ...], ...]
    last: tuple[Operation, ...]

    def __iter__(self) -> Iterator[Operation]:
        yield from self.first
        for layer in self.layers:
            yield from layer
        yield from self.last

    @property
    def launches(self) -> int:
        """Calls that launch kernels, where no graph holds them."""
        return sum(operation.launches for operation in self)

    @property
    def layer_kernels(self) -> float:
        """Kernels of passes in a layer, mean over layers: those that nothing fuses."""
        return sum(_kernels(layer, "passes") for layer in self.layers) / len(self.layers)

    @property
    def expert_kernels(self) -> float:
        """Kernels of routing in a layer with experts; 1 where there is none."""
        return float(max([1, *(_kernels(layer, "routing") for layer in self.layers)]))

    @property
    def outer_kernels(self) -> int:
        """Kernels outside of layers, but for the logits."""
        return _kernels((*self.first, *self.last), "outer")


def _kernels(operations: Iterable[Operation], item: str) -> int:
    """Kernels of the operations whose only item is this one."""
    return sum(operation.kernels for operation in operations if operation.items == (item,))


def plan_step(model: ModelSpec, batch: BatchConfig, *, on_gpu: bool = True) -> Plan:
    """The operations that the engine of a batch runs for its step."""
    decoding = batch.sequences / batch.pipeline * (batch.speculative_tokens + 1)
    load = Load(
        decoding + batch.prefill_tokens, batch.tensor, batch.expert, batch.prefill_tokens,
        batch.pipeline, batch.context_parallel, on_gpu, formats.kv_format(batch.kv_dtype),
    )  # fmt: skip
    layers = model.layers or _alike(model)
    is_own = batch.engine == "assay"
    layer = own_layer if is_own else vllm_layer
    by_kind = {kind: tuple(layer(model, kind, load)) for kind in dict.fromkeys(layers)}
    phase = "decode" if not batch.prefill_tokens else "mixed" if batch.sequences else "prefill"
    return Plan(
        phase, load, tuple(own_first(model) if is_own else before_layers(model)),
        tuple(by_kind[kind] for kind in layers),
        tuple(own_last(model, load) if is_own else after_layers(model, load)),
    )  # fmt: skip


def _alike(model: ModelSpec) -> tuple[LayerSpec, ...]:
    """Layers of a model that lists none, as its shares say."""
    from assay.catalog import layer_kinds

    shapes = model.architecture
    kinds = zip(
        layer_kinds.mixers(shapes, {}), layer_kinds.mlps(shapes, {}),
        layer_kinds.windowed(shapes, {}), strict=True,
    )  # fmt: skip
    return tuple(LayerSpec(*kind) for kind in kinds)
