"""The weights of models that sleep: moved to pinned host memory, and back when they wake up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

from assay import ops
from assay._native import Buffer
from assay.engine.models.model import Model
from assay.errors import DeviceError, FreedError, OutOfMemoryError
from assay.runtime import Array, Device, Stream, capture_graph
from assay.runtime.graphs import Graph


class Evicted(NamedTuple):
    """What became of the weights of models that fell asleep."""

    moved_bytes: int
    """Moved to the host."""
    kept_bytes: int
    """Left on the device: another engine uses the same weights, or the host has no memory left."""


def evict(device: Device, models: Sequence[Model]) -> Evicted:
    """Move the weights of models to the host, as far as nothing else needs them on the device."""
    moved = kept = 0
    stream = device.current_stream()._native
    for buffer in _buffers(models):
        try:
            buffer.evict(stream)
        except FreedError:
            raise
        except DeviceError:
            # Captured graphs and views of others need the memory where it is.
            kept += buffer.nbytes
        else:
            moved += buffer.nbytes
    device.synchronize()
    return Evicted(moved, kept)


def restore(stream: Stream, models: Sequence[Model]) -> Graph:
    """Move the weights of models back to the device; the graph keeps them there until it is closed.

    It is captured on `stream` and never replayed: memory in a graph is not evicted.
    """
    device = stream.device
    buffers = _buffers(models)
    byte = device.allocate(1)

    def touch() -> None:
        for buffer in buffers:
            device.copy("keep_resident", buffer, 0, byte, 0, 1)

    touch()
    device.synchronize()
    resident = sum(buffer.nbytes for buffer in buffers if buffer.resident)
    total = sum(buffer.nbytes for buffer in buffers)
    if resident < total:
        # The last ones took the place of the first.
        raise OutOfMemoryError(
            f"wake up: expected room for {total:,} bytes of weights, got {resident:,}",
            "free memory of the device, or put another model to sleep",
        )
    return capture_graph(touch, stream=stream, label="keep_resident")


def _buffers(models: Sequence[Model]) -> list[Buffer]:
    """The buffers of all weights, each once."""
    found = {id(buffer): buffer for buffer in _parts(list(models)) if buffer.nbytes}
    return list(found.values())


def _parts(part: object) -> Iterator[Buffer]:
    if isinstance(part, ops.Weights | Array):
        yield part.buffer
    elif isinstance(part, Model):
        for field in fields(part):
            yield from _parts(getattr(part, field.name))
    elif isinstance(part, tuple | list):
        for one in part:
            yield from _parts(one)
