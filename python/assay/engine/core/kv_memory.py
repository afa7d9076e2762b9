"""The KV cache: memory for keys and values, and the books of who holds which block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from assay._native import KvCache
from assay.engine.models.model_shape import ModelShape
from assay.errors import InputError
from assay.lazy_import import LazyModule
from assay.runtime import Array, Device, dtypes, launching
from assay.runtime.dtypes import DType
from assay.runtime.layout import Layout, row_major

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LazyModule("numpy", globals(), "np")

FORMATS: dict[str, DType] = {"f32": dtypes.float32, "bf16": dtypes.bfloat16}
"""What keys and values can be stored in."""


@dataclass(frozen=True, slots=True)
class KvSnapshot:
    """The findable blocks of a cache with their keys and values, in the host's memory."""

    identity: tuple[object, ...]
    """What a cache must agree in to take them: weights, extents, format."""
    blocks: tuple[tuple[int, int | None, tuple[int, ...]], ...]
    """Place in `data`, place of the block before, tokens."""
    data: npt.NDArray[np.uint8]
    """Blocks by parts (keys of each layer, then values) by bytes."""

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values it has."""
        return sum(len(tokens) for _, _, tokens in self.blocks)


class KvMemory:
    """Blocks of keys and values for every layer, in one piece of memory."""

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
        """Allocate; `owner` tells the weights that the content will depend on from others."""
        dtype = FORMATS[format]
        self.device = device
        self.books = KvCache(blocks, block_tokens, prefix_caching=prefix_caching)
        self._owner = owner
        self._described = (shape, block_tokens, format)
        extents = (blocks, block_tokens, shape.kv_heads, shape.head_dim)
        parts = 2 * shape.layers
        # Kernels of a GPU multiply the unwritten end of a block by zero, so it must hold numbers;
        # those of the processor leave it alone, and clearing it would touch all of the memory.
        make = launching.empty if device.host_memory else launching.zeros
        self.memory = make(device, (parts, *extents), dtype, "kv_cache")
        size = self.memory.nbytes // parts
        self.block_bytes = size // blocks
        views = tuple(
            Array(
                device,
                self.memory.buffer,
                dtype,
                Layout(extents, row_major(extents, dtype.itemsize), self.memory.offset + part),
            )
            for part in range(0, size * parts, size)
        )
        self.keys, self.values = views[: shape.layers], views[shape.layers :]

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """What a snapshot must agree in."""
        return (*self._owner(), *self._described)

    @property
    def capacity(self) -> int:
        """Tokens that fit in all."""
        counts = self.books.statistics()
        return counts["blocks"] * counts["block_tokens"]

    def copy_block(self, source: int, destination: int) -> None:
        """Copy the keys and values of one block to another, in every layer."""
        context, stream = self.device._context, self.device.current_stream()._native
        for part in (*self.keys, *self.values):
            context.copy(
                "copy_block",
                part.buffer,
                part.offset + source * self.block_bytes,
                part.buffer,
                part.offset + destination * self.block_bytes,
                self.block_bytes,
                stream,
            )

    def clear_blocks(self, sequence: int) -> None:
        """Set the keys and values of a sequence's blocks to zero, in every layer."""
        context, stream = self.device._context, self.device.current_stream()._native
        blocks = set(self.books.table(sequence))
        # Neighbors at once: a cache that little has happened to hands blocks out in a row.
        starts = sorted(block for block in blocks if block - 1 not in blocks)
        ends = sorted(block + 1 for block in blocks if block + 1 not in blocks)
        for first, end in zip(starts, ends, strict=True):
            size = (end - first) * self.block_bytes
            for part in (*self.keys, *self.values):
                offset = part.offset + first * self.block_bytes
                context.fill("clear_blocks", part.buffer, offset, 0, size, stream)

    def snapshot(self) -> KvSnapshot:
        """Everything that later prompts can find, copied to the host."""
        listed = self.books.cached_blocks()
        parts = (*self.keys, *self.values)
        data = np.empty((len(listed), len(parts), self.block_bytes), np.uint8)
        for place, (block, _, _) in enumerate(listed):
            for index, part in enumerate(parts):
                offset = part.offset + block * self.block_bytes
                self.device._context.download("snapshot", part.buffer, offset, data[place, index])
        entries = tuple(
            (place, before, tuple(tokens)) for place, (_, before, tokens) in enumerate(listed)
        )
        return KvSnapshot(self.identity, entries, data)

    def restore(self, snapshot: KvSnapshot) -> int:
        """Make the blocks of a snapshot findable again; returns how many tokens were put back.

        Blocks that are there already stay, and those that find no room are left out.
        """
        if snapshot.identity != self.identity:
            raise InputError(
                "snapshot: expected one of the same weights, extents and block format, "
                "got one of others",
                "load the same model with the same block_tokens, kv_format and weight_format",
            )
        taken = self.books.adopt(snapshot.blocks)
        restored = 0
        for (place, _, tokens), block in zip(snapshot.blocks, taken, strict=True):
            if block is not None:
                self._write(block, snapshot.data[place])
                restored += len(tokens)
        return restored

    def free(self) -> None:
        """Give the memory back, once."""
        is_held = bool(self.keys)
        # Views go first: memory that can still be seen is not given back.
        self.keys = self.values = ()
        if is_held:
            self.memory.free()

    def _write(self, block: int, data: npt.NDArray[np.uint8]) -> None:
        for index, part in enumerate((*self.keys, *self.values)):
            offset = part.offset + block * self.block_bytes
            self.device._context.upload("restore", data[index], part.buffer, offset)
