"""How many servers fit beside each other, and which part of the memory each gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assay.errors import AssayError
from assay.improve.engines.adapter import Source
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.process import resident_bytes
from assay.improve.engines.protocol import Room
from assay.improve.engines.read_back import state_of
from assay.load.workloads.measurement import Setting

GIB: Final = 2**30
MOST_SERVERS: Final = 4
"""More would start slower than they are measured."""
OUTSIDE: Final = 0.025
"""Of the GPU, that each of several servers takes beside its share, which counts neither contexts and graphs
nor what the allocator holds back: 0.022 of 140 GB was seen, and candidates may have larger steps."""
SPARE: Final = 1.1
"""KV cache of each server over what its load needs, and memory of a host over what servers hold."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a server has of the memory, as knobs that its settings do not show."""

    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU's memory as one server has it."""

    total_bytes: float
    share: float
    """Of the total, that the server may take."""
    cache_bytes: float
    """Of its share, for the KV cache; the rest are weights, activations and graphs."""
    cache_tokens: float

    def cache_of(self, servers: int) -> float:
        """Bytes of KV cache of each where the share is divided; below 0 where none is left.

        >>> Device(100.0, 0.9, 60.0, 600.0).cache_of(2)
        12.5
        """
        if servers == 1:
            return self.cache_bytes
        gone = self.share * (1.0 - 1.0 / servers) + OUTSIDE
        return self.cache_bytes - gone * self.total_bytes

    def tokens_of(self, servers: int) -> float:
        """Tokens that fit into that."""
        return self.cache_tokens * self.cache_of(servers) / self.cache_bytes


def room_of(engine: HttpEngine, context_tokens: float) -> Room:
    """How many servers of this kind may run at once, each with so many tokens of context."""
    if engine.gpu() is None:
        return _host_room(engine)
    device = device_of(engine)
    if isinstance(device, str):
        return Room(1, "own", f"one server at a time: {device}")
    needed = max(SPARE * context_tokens, engine.describe().context_limit or 0)
    fitting = [count for count in range(2, MOST_SERVERS + 1) if device.tokens_of(count) >= needed]
    if not fitting:
        return Room(
            1,
            "own",
            f"one server at a time: two would have {max(device.tokens_of(2), 0):,.0f} tokens of KV "
            f"cache each, and {needed:,.0f} are needed",
        )
    count = max(fitting)
    return Room(
        count,
        "shared",
        f"{count} servers share the GPU: {device.cache_of(count) / GIB:.1f} GiB of KV cache "
        f"({device.tokens_of(count):,.0f} tokens) each, in place of {device.cache_bytes / GIB:.1f} "
        f"({device.cache_tokens:,.0f})",
    )


def parts_of(engine: HttpEngine, room: Room) -> Parts:
    """The knobs that give each server its part."""
    if room.memory != "shared":
        return Parts()
    device = device_of(engine)
    assert not isinstance(device, str)
    residents = engine.adapter.residents
    return Parts(
        {
            residents.share: round(device.share / room.servers, 4),
            residents.cache: int(device.cache_of(room.servers)),
        }
    )


def device_of(engine: HttpEngine) -> Device | str:
    """The memory of a server's GPU; a text says what is not known of it."""
    residents = engine.adapter.residents
    gpu = engine.gpu()
    if gpu is None or not residents.knobs <= engine.adapter.knobs.keys() or not residents.share:
        return f"the adapter of {engine.adapter.name} does not say how a GPU's memory is shared"
    share = engine.settings().get(residents.share)
    cache = _number(engine, residents.cache_gib)
    tokens = _number(engine, residents.cache_blocks)
    block = _number(engine, residents.block_tokens)
    if not isinstance(share, int | float) or cache is None or tokens is None or block is None:
        return "the server does not state its KV cache in a log of this run"
    from assay.runtime.cuda import probe

    listed = probe().gpus
    if gpu >= len(listed):
        return f"cuda:{gpu} is not listed here"
    return Device(float(listed[gpu].memory_bytes), share, cache * GIB, tokens * block)


def _number(engine: HttpEngine, source: Source | None) -> float | None:
    try:
        text = state_of(source, engine.adapter, engine.address, engine.server.log)
        return None if text is None else float(text)
    except (AssayError, ValueError):
        return None


def _host_room(engine: HttpEngine) -> Room:
    """Servers of a CPU: by the memory that the host has left."""
    record = engine.server.record
    held = 0 if record is None or record.pid is None else resident_bytes(record.pid)
    if not held:
        return Room(1, "own", "one server at a time: its memory is not known")
    count = min(1 + int(_available_bytes() / (SPARE * held)), MOST_SERVERS)
    if count < 2:
        return Room(1, "own", "one server at a time: the host has no memory for a second")
    return Room(count, "own", f"{count} servers at once, {held / GIB:.1f} GiB of the host each")


def _available_bytes() -> float:
    """Memory of the host that a new process may have; 0 where the host does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line), 0.0)
