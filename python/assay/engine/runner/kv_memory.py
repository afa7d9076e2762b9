"""The paged KV cache: memory for keys and values, and the block manager that hands it out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from assay._native import BlockManager
from assay.engine.models.model_shape import ModelShape
from assay.errors import InputError
from assay.lazy_import import np
from assay.ops.kv_cache import is_quantized, token_elements
from assay.runtime import Array, Device, allocation, dtypes
from assay.runtime.dtypes import DType
from assay.runtime.layout import Layout, row_major

if TYPE_CHECKING:
    import numpy.typing as npt

FORMATS: dict[str, DType] = {
    "f32": dtypes.float32,
    "bf16": dtypes.bfloat16,
    "fp8": dtypes.uint8,
    "int8": dtypes.int8,
}
"""Data types that keys and values can be stored in: fp8 as e4m3 without a scale, as vLLM's default,
int8 with a scale for each token of a head."""


@dataclass(frozen=True, slots=True)
class KvSnapshot:
    """The blocks of a prefix cache with their keys and values, in host memory."""

    identity: tuple[object, ...]
    """What must be equal for another cache to restore them: weights, shape, format."""
    blocks: tuple[tuple[int, int | None, tuple[int, ...]], ...]
    """Index in `data`, index of the previous block of the prefix, tokens."""
    data: npt.NDArray[np.uint8]
    """Blocks by planes (keys of each layer, then values) by bytes."""

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values it has."""
        return sum(len(tokens) for _, _, tokens in self.blocks)


class KvMemory:
    """KV blocks of every layer, in one allocation."""

    def __init__(
        self,
        device: Device,
        shape: ModelShape,
        *,
        blocks: int,
        block_tokens: int,
        format: str,
        prefix_caching: bool,
        owner: Callable[[], tuple[object, ...]],
    ) -> None:
        """Allocate; `owner` identifies the weights that the content depends on."""
        dtype = FORMATS[format if shape.state is None else "f32"]
        self.device = device
        self.block_manager = BlockManager(blocks, block_tokens, prefix_caching=prefix_caching)
        self._owner = owner
        self._layout = (shape, block_tokens, format)
        # Keys of each layer, then values.
        extents = [
            (blocks, *block)
            for block in _block_extents(shape, block_tokens, dtype)
            for _ in range(shape.layers)
        ]
        sizes = [math.prod(extent) * dtype.itemsize for extent in extents]
        # GPU kernels multiply the unwritten end of a block by zero, so it must not hold NaN; CPU
        # kernels never read it, and clearing it would touch every page of the allocation.
        allocate = allocation.empty if device.host_memory else allocation.zeros
        self.memory = allocate(device, (sum(sizes) // dtype.itemsize,), dtype, "kv_cache")
        views = tuple(
            Array(
                device,
                self.memory.buffer,
                dtype,
                Layout(one, row_major(one, dtype.itemsize), self.memory.offset + end - size),
            )
            for one, size, end in zip(extents, sizes, itertools.accumulate(sizes), strict=True)
        )
        # Latent attention has no values: they are the beginning of its keys.
        self.keys, self.values = views[: shape.layers], views[shape.layers :]

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """What a snapshot must match to be restored."""
        return (*self._owner(), *self._layout)

    def forget_identity(self) -> None:
        """The owner has changed."""
        self.__dict__.pop("identity", None)

    @property
    def capacity(self) -> int:
        """Tokens that all blocks hold together."""
        counts = self.block_manager.statistics()
        return counts["blocks"] * counts["block_tokens"]

    def copy_block(self, source: int, destination: int) -> None:
        """Copy the keys and values of one block to another, in every layer."""
        for plane in (*self.keys, *self.values):
            size = _block_bytes(plane)
            self.device.copy(
                "copy_block",
                plane.buffer,
                plane.offset + source * size,
                plane.buffer,
                plane.offset + destination * size,
                size,
            )

    def clear_blocks(self, sequence: int) -> None:
        """Set the keys and values of a sequence's blocks to zero, in every layer."""
        blocks = set(self.block_manager.block_table(sequence))
        # One fill per run of adjacent blocks: a fresh cache hands blocks out in order.
        starts = sorted(block for block in blocks if block - 1 not in blocks)
        ends = sorted(block + 1 for block in blocks if block + 1 not in blocks)
        for first, end in zip(starts, ends, strict=True):
            for plane in (*self.keys, *self.values):
                size = _block_bytes(plane)
                offset = plane.offset + first * size
                self.device.fill("clear_blocks", plane.buffer, offset, 0, (end - first) * size)

    def snapshot(self) -> KvSnapshot:
        """All blocks of the prefix cache, copied to the host."""
        cached = self.block_manager.cached_blocks()
        planes = (*self.keys, *self.values)
        # All planes have blocks of the same size: states, which do not, are never cached.
        data = np.empty((len(cached), len(planes), _block_bytes(planes[0])), np.uint8)
        for row, (block, _, _) in enumerate(cached):
            for index, plane in enumerate(planes):
                offset = plane.offset + block * _block_bytes(plane)
                self.device.download("snapshot", plane.buffer, offset, data[row, index])
        entries = tuple(
            (row, previous, tuple(tokens)) for row, (_, previous, tokens) in enumerate(cached)
        )
        return KvSnapshot(self.identity, entries, data)

    def restore(self, snapshot: KvSnapshot) -> int:
        """Put a snapshot's blocks into the prefix cache; returns how many tokens were restored.

        Blocks that are cached already stay; blocks for which there is no free one are left out.
        """
        if snapshot.identity != self.identity:
            raise InputError(
                "snapshot: expected one of the same weights, shape and block format, "
                "got one of others",
                "load the same model with the same block_tokens, kv_format and weight_format",
            )
        targets = self.block_manager.adopt(snapshot.blocks)
        restored = 0
        for (row, _, tokens), block in zip(snapshot.blocks, targets, strict=True):
            if block is not None:
                self._write(block, snapshot.data[row])
                restored += len(tokens)
        return restored

    def free(self) -> None:
        """Free the memory; a second call does nothing."""
        is_allocated = bool(self.keys)
        # Views first: they keep the allocation alive.
        self.keys = self.values = ()
        if is_allocated:
            self.memory.free()

    def _write(self, block: int, data: npt.NDArray[np.uint8]) -> None:
        for index, plane in enumerate((*self.keys, *self.values)):
            offset = plane.offset + block * _block_bytes(plane)
            self.device.upload("restore", data[index], plane.buffer, offset)


def _block_bytes(plane: Array) -> int:
    """Bytes of one block in one array of the cache."""
    return plane.nbytes // plane.shape[0]


def _block_extents(shape: ModelShape, block_tokens: int, dtype: DType) -> list[tuple[int, ...]]:
    """The shape of a block in each array of a layer, with the scales of its tokens."""
    extents = shape.block_extents(block_tokens)
    if not is_quantized(dtype):
        return extents
    if shape.latent is not None:
        raise InputError(
            "kv_format: expected f32 or bf16 for latent attention, got a format of 8 bits",
            "latents are shared by all heads, and have no kernel that reads them in 8 bits",
        )
    return [(*block[:-1], token_elements(block[-1], dtype)) for block in extents]
