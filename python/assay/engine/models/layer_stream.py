"""Weights of layers that stay in host memory and are copied to the device in every step.

A model may be larger than device memory: the matrices of its last layers are in pinned host memory,
and two sets of slots on the device take turns. While one layer is computed from its slots, those of
the next are filled. Each set has a stream of its own: work waits for all that its predecessor's
stream has queued, and a layer must not wait for the copies of the next. The runtime orders copies
and kernels by the buffers that they read and write, in a captured graph too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay import ops
from assay._native import Buffer
from assay.engine.models.layers import Block
from assay.runtime import Array, Device, dtypes
from assay.runtime.layout import Layout
from assay.runtime.memory import PinnedBuffer

NUM_SLOTS = 2
"""Layers whose weights are on the device at a time: one is computed while the next is copied."""


class _StreamedMatrix(NamedTuple):
    host: PinnedBuffer
    slot: Array


class LayerStream:
    """The layers in host memory, in the order of the model."""

    def __init__(self, device: Device) -> None:
        """Start without layers."""
        self._device = device
        self._streams = [device.stream() for _ in range(NUM_SLOTS)]
        self._layers: dict[int, list[_StreamedMatrix]] = {}
        self._slots: dict[tuple[int, int, int], Buffer] = {}
        """Memory by matrix of a layer, bytes and turn."""
        # A stream joins a capture by work that comes after a captured node.
        self._begin = device.allocate(4)
        self._joined = [device.allocate(4) for _ in self._streams]

    @property
    def num_layers(self) -> int:
        """Layers that are copied in every step."""
        return len(self._layers)

    @property
    def host_bytes(self) -> int:
        """Bytes that are copied in every step."""
        return sum(one.host.nbytes for layer in self._layers.values() for one in layer)

    def take(self, index: int, block: Block) -> Block:
        """Move the matrices of a layer to host memory; returns the layer over its slots."""
        turn = len(self._layers) % NUM_SLOTS
        matrices = self._layers.setdefault(index, [])

        def move(weights: ops.Weights) -> ops.Weights:
            count = weights.nbytes
            host = self._device.pinned(count)
            host.copy_from(_bytes_of(self._device, weights.buffer, count))
            self._device.synchronize()
            weights.free()
            key = (len(matrices), count, turn)
            if key not in self._slots:
                self._slots[key] = self._device.allocate(count)
            slot = self._slots[key]
            matrices.append(_StreamedMatrix(host, _bytes_of(self._device, slot, count)))
            return ops.Weights(self._device, slot, weights.format, weights.shape)

        changed: Block = _with_weights(block, move)
        return changed

    def begin_part(self, *, is_first: bool) -> None:
        """Begin a part of a step, before anything else of it is queued: the first copy, if it is first."""
        self._device.fill("weights.begin", self._begin, 0, 0, 4)
        for stream, joined in zip(self._streams, self._joined, strict=True):
            with stream:
                self._device.copy("weights.join", self._begin, 0, joined, 0, 4)
        if is_first:
            self._copy(min(self._layers))

    def begin_layer(self, index: int) -> None:
        """Begin to copy the layer after a streamed one, before the latter is queued."""
        if index in self._layers and index + 1 in self._layers:
            self._copy(index + 1)

    def _copy(self, index: int) -> None:
        with self._streams[(index - min(self._layers)) % NUM_SLOTS]:
            for number, matrix in enumerate(self._layers[index]):
                matrix.host.copy_to(matrix.slot, label=f"layers.{index}.weights.{number}")


def streamed_layers(layers: int, count: int) -> Sequence[int]:
    """Which layers are streamed: the last ones, so that the first hide the first copy."""
    return range(layers - count, layers)


def _bytes_of(device: Device, buffer: Buffer, count: int) -> Array:
    return Array(device, buffer, dtypes.uint8, Layout((count,), (1,), 0))


def _with_weights(part: Any, move: Any) -> Any:
    """A layer with every matrix replaced; norms, biases and tables stay."""
    if isinstance(part, ops.Weights):
        return move(part)
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(_with_weights(one, move) for one in part))
    if isinstance(part, tuple):
        return tuple(_with_weights(one, move) for one in part)
    return part
