"""Chakra execution traces: GlobalMetadata, then a Node for each event, each with its length.

Times of a node are whole microseconds; the exact nanoseconds, as every other column, are
attributes. Data links lead from an API call to what it started, along each stream (edges
between GPU nodes) and along each thread; control links from the host event around another.

The numbers below are those of the fields of
https://github.com/mlcommons/chakra/blob/main/schema/protobuf/et_def.proto.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.lazy_import import np, pl
from assay.observe import json_rows, operations, records, schema
from assay.observe.exporters import tracks
from assay.observe.exporters.tracks import Layout
from assay.observe.trace import Trace
from assay.observe.wire import encoding as wire
from assay.paths import replacing


class Edges(NamedTuple):
    """For each event the row of another one, or -1."""

    parent: np.ndarray
    """The host event around a host event, on its thread."""
    before: np.ndarray
    """The one before it: on its thread inside the same parent, or on its stream."""
    call: np.ndarray
    """The API call that started a device event."""


def edges(events: pl.DataFrame, drawn: Layout) -> Edges:
    """Dependencies from nesting and order of threads, from correlation, and from stream order."""
    count = len(events)
    parent, before, call = (np.full(count, -1, np.int64) for _ in range(3))
    pairs = tracks.launches(events)
    call[pairs["row"].to_numpy()] = pairs["call"].to_numpy()
    is_device = events["kind"].cast(pl.String).is_in(list(schema.DEVICE_KINDS)).to_numpy()
    # A stream runs in order, also where the ends of its kernels overlap: its lanes are one.
    first: dict[tuple[object, ...], int] = {}
    streams = np.array(
        [first.setdefault(track[:4], len(first)) for track in drawn.tracks], np.int64
    )
    rows = np.flatnonzero(is_device)
    order = rows[np.lexsort((rows, drawn.start[rows], streams[drawn.track[rows]]))]
    same = streams[drawn.track[order[1:]]] == streams[drawn.track[order[:-1]]]
    before[order[1:][same]] = order[:-1][same]
    rows = np.flatnonzero(~is_device)
    order = rows[np.lexsort((rows, -drawn.end[rows], drawn.start[rows], drawn.track[rows]))]
    edge = np.flatnonzero(np.diff(drawn.track[order])) + 1
    for thread in np.split(order, edge):
        _nest(thread.tolist(), drawn, parent, before)
    return Edges(parent, before, call)


def _nest(rows: list[int], drawn: Layout, parent: np.ndarray, before: np.ndarray) -> None:
    """Parents and earlier siblings on one lane of a thread, whose events nest."""
    starts, ends = drawn.start[rows].tolist(), drawn.end[rows].tolist()
    stack: list[tuple[int, int]] = []
    latest: dict[int, int] = {}
    parents, siblings = [], []
    for row, start, end in zip(rows, starts, ends, strict=True):
        while stack and stack[-1][1] <= start:
            stack.pop()
        above = stack[-1][0] if stack else -1
        parents.append(above)
        siblings.append(latest.get(above, -1))
        latest[above] = row
        stack.append((row, end))
    parent[rows], before[rows] = parents, siblings


VERSION: Final = "1.0.0"
CHUNK: Final = 100_000

METADATA_NODE, COMP_NODE, SEND_NODE, RECV_NODE, COLL_NODE = 1, 4, 5, 6, 7
COLLECTIVES: Final = {"all_reduce": 0, "all_gather": 2, "all_to_all": 6, "reduce_scatter": 7}
"""Operations of this package, and the collectives of Chakra."""

INT32_LIST, INT64, DOUBLE, BOOL, STRING = 8, 9, 3, 27, 29
"""Fields of an attribute by the type of its value."""

TEXTS: Final = ("kind", "category", "phase", "op")
NUMBERS: Final = (
    "start_ns", "dur_ns", "rank", "device", "stream", "pid", "tid", "correlation", "external",
    "graph", "node", "step", "layer", "bytes",
)  # fmt: skip
ARRAYS: Final = ("grid", "block")
_ATTRIBUTE: Final = wire.tag(10, wire.LENGTH)


def attribute(name: str, kind: int, value: str | int) -> bytes:
    """One attribute, without its key."""
    return wire.field(1, name) + wire.field(kind, value)


def write(trace: Trace, path: Path, *, progress: Callable[[str], None] | None = None) -> None:
    """Write a trace as a Chakra execution trace."""
    drawn = tracks.layout(trace.events)
    links = edges(trace.events, drawn)
    first = {**records.first_record(trace), "step_rows": json_rows.steps_data(trace.steps)}
    text = json.dumps(first, allow_nan=False)
    metadata = wire.field(1, VERSION) + wire.field(2, attribute("assay_trace", STRING, text))
    with replacing(path) as file:
        file.write(wire.varint(len(metadata)) + metadata)
        for start in range(0, len(trace.events), CHUNK):
            rows = np.arange(start, min(start + CHUNK, len(trace.events)))
            nodes = _nodes(trace.events[rows], rows, drawn, links)
            file.write(wire.content(wire.framed(b"", nodes)))
            if progress:
                progress(f"{rows[-1] + 1:,} of {len(trace.events):,} events written")


def _nodes(
    events: pl.DataFrame, rows: np.ndarray, drawn: tracks.Layout, links: Edges
) -> wire.Column:
    is_device = events["kind"].cast(pl.String).is_in(list(schema.DEVICE_KINDS)).to_numpy()
    kinds, collectives = _types(events)
    start, length = drawn.start[rows], drawn.end[rows] - drawn.start[rows]
    parts: list[wire.Column | bytes] = [
        wire.numbers(wire.tag(1, wire.VARINT), rows),
        wire.framed(wire.tag(2, wire.LENGTH), _bytes(events["name"])),
        wire.numbers(wire.tag(3, wire.VARINT), kinds),
    ]
    for number, edge in ((4, links.parent), (5, links.call), (5, links.before)):
        # A repeated number may stand alone as well as packed.
        known = edge[rows] >= 0
        if number == 5 and edge is links.before:
            known &= links.before[rows] != links.call[rows]
        parts.append(wire.numbers(wire.tag(number, wire.VARINT), edge[rows].clip(0), known))
    parts += [
        wire.numbers(wire.tag(6, wire.VARINT), start // 1000),
        wire.numbers(wire.tag(7, wire.VARINT), length // 1000),
        wire.picked(
            [_framed(attribute("is_cpu_op", BOOL, value)) for value in (1, 0)],
            is_device.astype(np.int64),
        ),
    ]
    for name, kind, values, known in (
        ("comm_type", INT64, collectives, collectives >= 0),
        ("comm_size", INT64, events["bytes"].fill_null(0).to_numpy(), (kinds >= SEND_NODE)
         & events["bytes"].is_not_null().to_numpy()),
    ):  # fmt: skip
        if known.any():
            opening, length_at = _opening(name, kind)
            parts.append(wire.numbers(opening, values, known, length_at=length_at))
    return wire.join(*parts, *_columns(events))


def _framed(message: bytes) -> bytes:
    return _ATTRIBUTE + wire.varint(len(message)) + message


def _opening(name: str, kind: int, wire_type: int = wire.VARINT) -> tuple[bytes, int]:
    """The beginning of an attribute up to its value, and where its length belongs."""
    opening = _ATTRIBUTE + b"\0" + wire.field(1, name) + wire.tag(kind, wire_type)
    return opening, len(_ATTRIBUTE)


def _columns(events: pl.DataFrame) -> list[wire.Column]:
    """Every column that is known, as an attribute."""
    parts = []
    for name in (*TEXTS, "args"):
        if events[name].null_count() < len(events):
            known = events[name].is_not_null().to_numpy()
            value = wire.framed(wire.tag(STRING, wire.LENGTH), _bytes(events[name]))
            message = wire.masked(wire.join(wire.field(1, name), value), known)
            parts.append(wire.framed(_ATTRIBUTE, message))
    for name in NUMBERS:
        if events[name].null_count() < len(events):
            opening, length_at = _opening(name, INT64)
            known = events[name].is_not_null().to_numpy()
            numbers = events[name].fill_null(0).to_numpy().astype(np.int64)
            parts.append(wire.numbers(opening, numbers, known, length_at=length_at))
    if events["flops"].null_count() < len(events):
        opening, length_at = _opening("flops", DOUBLE, wire.FIXED64)
        opening = (
            opening[:length_at]
            + bytes([len(opening) - length_at - 1 + 8])
            + (opening[length_at + 1 :])
        )
        known = events["flops"].is_not_null().to_numpy()
        parts.append(wire.fixed(opening, events["flops"].fill_null(0.0).to_numpy(), known))
    for name in ARRAYS:
        if events[name].null_count() < len(events):
            parts.append(_array(events[name]))
    return parts


def _array(column: pl.Series) -> wire.Column:
    """Attributes of three numbers of 32 bits, packed."""
    axes = [
        wire.numbers(b"", column.arr.get(axis).fill_null(0).to_numpy().astype(np.int64))
        for axis in range(3)
    ]
    packed = wire.framed(wire.tag(1, wire.LENGTH), wire.join(*axes))
    values = wire.framed(wire.tag(INT32_LIST, wire.LENGTH), packed)
    known = column.is_not_null().to_numpy()
    message = wire.masked(wire.join(wire.field(1, column.name), values), known)
    return wire.framed(_ATTRIBUTE, message)


def _bytes(column: pl.Series) -> Any:
    return column.cast(pl.String).to_arrow().cast("large_binary")


def _types(events: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The type of each node, and which collective it is, or -1."""
    keys = events.select("kind", "name", "op").with_columns(pl.all().cast(pl.String))
    distinct = keys.unique()
    types = [_type(*row) for row in distinct.rows()]
    distinct = distinct.with_columns(
        pl.Series("type", [type_ for type_, _ in types], pl.Int64),
        pl.Series("collective", [collective for _, collective in types], pl.Int64),
    )
    joined = keys.join(
        distinct, on=["kind", "name", "op"], how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["type"].to_numpy(), joined["collective"].to_numpy()


def _type(kind: str, name: str, operation: str | None) -> tuple[int, int]:
    if kind in ("range", "overhead", "instant"):
        return METADATA_NODE, -1
    if kind not in schema.DEVICE_KINDS:
        return COMP_NODE, -1
    parts = set(operations.parts(operation)) if operation else set()
    if not parts and re.match("(?i)(nccl|rccl)", name):
        plain = re.sub("[^a-z]", "", name.lower())
        parts = {part for part in (*COLLECTIVES, "send_recv") if part.replace("_", "") in plain}
    for collective, number in COLLECTIVES.items():
        if collective in parts:
            return COLL_NODE, number
    if "send_recv" in parts:
        return (RECV_NODE if re.search("(?i)recv", name) else SEND_NODE), -1
    return COMP_NODE, -1
