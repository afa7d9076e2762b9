"""Graphs: work captured once and replayed with one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from assay._native import NativeGraph
from assay.closing import Closing
from assay.errors import InputError
from assay.runtime.delays import DelaySlots
from assay.runtime.hardware import Device, Stream, device as shared_device


class GraphNode(NamedTuple):
    """One captured operation of a graph."""

    label: str
    kind: str
    """launch, copy within device, fill ..., as in records"""
    bytes: int
    flops: float
    stream: int
    """the stream it was captured on"""
    operation: str | None
    """the operation of the table, such as linear; None for copies, fills and user kernels"""
    after: tuple[int, ...] = ()
    """indices of nodes of other streams that it comes after; earlier ones of its own are implied"""


class NodeTime(NamedTuple):
    """Start and end of one node on the device's clock."""

    node: GraphNode
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Its duration."""
        return self.end_ns - self.start_ns


class Graph(Closing):
    """A captured graph; `capture_graph` creates one.

    It keeps the memory that its operations use alive. A replay reads and writes the current
    contents of that memory and is one record; `nodes` lists the operations inside.
    """

    def __init__(
        self, device: Device, native: NativeGraph, label: str, streams: Sequence[Stream] = ()
    ) -> None:
        """Wrap a captured graph; operations keep scratch memory for the streams it was captured on."""
        self.device: Final = device
        self._streams: Final = tuple(streams)
        self.label: Final = label
        self.number: Final = native.number
        """Its number on its device."""
        self.nodes: Final = tuple(
            GraphNode(name, kind, nbytes, flops, stream, operation, tuple(after))
            for (kind, name, stream, nbytes, flops, operation), after in zip(
                native.nodes(), native.dependencies(), strict=True
            )
        )
        """What was captured, in order."""
        self.bytes: Final = sum(node.bytes for node in self.nodes)
        """Bytes that one replay moves."""
        self.flops: Final = sum(node.flops for node in self.nodes)
        """Floating-point operations of one replay."""
        self._native: Final = native

    def replay(self, stream: Stream | None = None) -> None:
        """Replay the graph on a stream, by default the current one.

        On the default stream of `cpu` it is complete when this returns.
        """
        self._native.replay((stream or self.device.current_stream())._native)

    def profile(self, stream: Stream | None = None) -> list[NodeTime]:
        """Replay the graph node by node and return when each node ran.

        Waits for completion. The events between nodes add overhead, so the total is longer than a
        replay.
        """
        times = self._native.profile((stream or self.device.current_stream())._native)
        return [
            NodeTime(node, start_ns, end_ns)
            for node, (start_ns, end_ns) in zip(self.nodes, times, strict=True)
        ]

    def with_delays(
        self, nodes: Mapping[int, int], slots: DelaySlots, streams: Sequence[Stream] = ()
    ) -> Graph:
        """Capture the graph anew with delays: before each node of `nodes`, the delay of its slot.

        A delay comes after everything that its node waits for. Both graphs use the same memory, and
        replays of them are ordered by it. `streams` are used for the capture, and for its scratch
        memory, before new ones are created; the first must not be one of another thread.
        """
        for node, slot in nodes.items():
            if not 0 <= node < len(self.nodes):
                raise InputError(f"delays: expected a node below {len(self.nodes)}, got {node}")
            if not 0 <= slot < slots.count:
                raise InputError(f"delays: expected a slot below {slots.count}, got {slot}")
        if slots.device is not self.device:
            raise InputError(
                f"delays: expected slots on {self.device.name}, got some on {slots.device.name}"
            )
        count = len({node.stream for node in self.nodes})
        used = [*streams, *(self.device.stream() for _ in range(count - len(streams)))]
        native = self._native.with_delays(
            [stream._native for stream in used], list(nodes.items()), slots.buffer
        )
        return Graph(self.device, native, self.label, used)

    def close(self) -> None:
        """Release the memory it uses; it cannot be replayed any more."""
        self._native.close()

    def __repr__(self) -> str:
        return f"Graph({self.label}, {len(self.nodes)} nodes)"


def capture_graph(
    function: Callable[[], object],
    *,
    device: Device | str | None = None,
    stream: Stream | None = None,
    label: str | None = None,
) -> Graph:
    """Call `function` once and capture what it submits to its device instead of running it.

    The work is captured on `stream`, by default a new stream of `device`, by default that of the
    innermost `with device:`, else `cpu`; a replay can use any stream. Operations of `assay.ops`
    with `out`, fills, and copies within the device can be captured. Allocations, NumPy loops,
    copies to or from the host, and reads of what captured work writes raise. `label` names the
    replays in records.
    """
    owner = _owner(device, stream)
    stream = stream or owner.stream()
    native = stream._native
    native.begin_capture()
    try:
        with stream:
            function()
    except BaseException:
        native.abandon_capture()
        raise
    name = str(label or getattr(function, "__name__", "graph"))
    return Graph(owner, NativeGraph(native, name), name, (stream,))


def _owner(device: Device | str | None, stream: Stream | None) -> Device:
    if stream is None:
        return shared_device(device)
    if device is not None and shared_device(device) is not stream.device:
        raise InputError(
            f"capture_graph: expected a stream of {shared_device(device)}, got one of "
            f"{stream.device}",
            "give the device or the stream",
        )
    return stream.device
