"""Perfetto: a protobuf trace of TrackEvents.

A track for each thread of a process and each stream of a device, and one more wherever slices of
one overlap without nesting; flows from API calls to what they started; every column of an event as
a debug annotation. The header and the steps are events of the kinds `trace` and `step`, so that
steps have a track of their own in the viewer.

See https://perfetto.dev/docs/reference/trace-packet-proto; the numbers below are those of its
fields.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.lazy_import import np, pl
from assay.observe import records, schema
from assay.observe.exporters import tracks
from assay.observe.exporters.lanes import bracket_order
from assay.observe.trace import Trace
from assay.observe.wire import encoding as wire
from assay.paths import replacing

CHUNK: Final = 250_000
"""Packets that are encoded at a time: bounds the memory."""

PACKET_KEY: Final = wire.tag(1, wire.LENGTH)
"""Before each packet of the trace."""

TEXTS: Final = ("kind", "phase", "op")
"""Columns whose text is interned as a value of annotations."""
NUMBERS: Final = (
    "row", "dur_ns", "start_ns", "rank", "device", "stream", "pid", "tid", "correlation",
    "external", "graph", "node", "step", "layer", "bytes",
)  # fmt: skip
ARRAYS: Final = ("grid", "block")
ANNOTATIONS: Final = (*TEXTS, *NUMBERS, "flops", *ARRAYS, "args")
"""Names of annotations; the number of one, from 1, is its interning id."""

_SEQUENCE: Final = wire.field(10, 1)
_NEEDS_STATE: Final = wire.field(13, 2)
_STATE_CLEARED: Final = wire.field(13, 1)
_BEGIN, _END, _INSTANT = (wire.field(9, value) for value in (1, 2, 3))


class _Interned(NamedTuple):
    """A column of text as numbers into a list of texts; rows that are not `known` are null."""

    codes: np.ndarray
    known: np.ndarray
    texts: list[str]


def write(trace: Trace, path: Path, *, progress: Callable[[str], None] | None = None) -> None:
    """Write a trace as a Perfetto trace."""
    head = records.head(trace)
    table = pl.concat([schema.complete(head), trace.events]).with_row_index("row")
    drawn = tracks.layout(table)
    # Steps are on tracks of their own, in time, and not among the threads.
    is_step = np.arange(len(table)) < len(head)
    interned = {name: _interned(table[name]) for name in ("name", "category", *TEXTS)}
    flows = _flows(table)
    is_instant = (interned["kind"].codes == _code(interned["kind"], "instant")) & (
        drawn.start == drawn.end
    )
    is_instant[0] = True
    lane = np.where(is_step, len(drawn.tracks) + drawn.track, drawn.track)
    order = bracket_order(lane, drawn.start, drawn.end)
    order = order[~((order >= len(table)) & is_instant[order % len(table)])]
    with replacing(path) as file:
        file.write(_packet(_SEQUENCE, _STATE_CLEARED, _interned_data(interned)))
        for descriptor in _descriptors(trace, drawn, lane):
            file.write(_packet(_SEQUENCE, wire.field(60, descriptor)))
        for start in range(0, len(order), CHUNK):
            chosen = order[start : start + CHUNK]
            is_begin = chosen < len(table)
            rows = chosen[is_begin]
            begins = _begins(table, rows, drawn, lane, interned, flows, is_instant)
            stops = _ends(chosen[~is_begin] - len(table), drawn, lane)
            packets = wire.concatenated(begins, stops)
            place = np.empty(len(chosen), np.int64)
            place[is_begin] = np.arange(len(rows))
            place[~is_begin] = len(rows) + np.arange(len(chosen) - len(rows))
            file.write(wire.content(wire.framed(PACKET_KEY, wire.taken(packets, place))))
            if progress:
                progress(f"{start + len(chosen):,} of {len(order):,} packets written")


def _packet(*fields: bytes) -> bytes:
    return wire.field(1, b"".join(fields))


def _uuid(lane: Any) -> Any:
    """The id of a track; those of processes and devices are even, others odd."""
    return 2 * lane + 1


def _interned(column: pl.Series) -> _Interned:
    encoded = column.cast(pl.String).to_arrow().dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(0)).astype(np.int64)
    return _Interned(codes, column.is_not_null().to_numpy(), encoded.dictionary.to_pylist())


def _code(column: _Interned, text: str) -> int:
    return column.texts.index(text) if text in column.texts else -1


def _interned_data(interned: dict[str, _Interned]) -> bytes:
    """Names, categories, and names and values of annotations, by id; ids begin at 1."""
    parts = []
    values = [text for name in TEXTS for text in interned[name].texts]
    for number, texts in (
        (1, interned["category"].texts),
        (2, interned["name"].texts),
        (3, list(ANNOTATIONS)),
        (29, values),
    ):
        parts += [
            wire.field(number, wire.field(1, index) + wire.field(2, text))
            for index, text in enumerate(texts, 1)
        ]
    return wire.field(12, b"".join(parts))


def _descriptors(trace: Trace, drawn: tracks.Layout, lane: np.ndarray) -> list[bytes]:
    """Descriptors of processes and devices, then of the threads and streams inside."""
    parents: dict[tuple[Any, ...], int] = {}
    descriptors: list[bytes] = []
    used = set(np.unique(lane).tolist())
    for index, track in enumerate(drawn.tracks):
        if len(drawn.tracks) + index in used:
            name = "steps" if track.rank is None else f"steps, rank {track.rank}"
            uuid = wire.field(1, _uuid(len(drawn.tracks) + index))
            descriptors.append(uuid + wire.field(2, name))
        if index not in used:
            continue
        key = track[:3]
        if key not in parents:
            parents[key] = 2 * (len(parents) + 1)
            name = tracks.process_name(trace.header, track)
            descriptors.append(wire.field(1, parents[key]) + _process(track, name))
        name = tracks.thread_name(trace.header, track)
        descriptors.append(
            wire.field(1, _uuid(index)) + wire.field(5, parents[key]) + _thread(track, name)
        )
    return descriptors


def _is_number(value: int | None) -> bool:
    """Whether the format holds a number of a process or thread, of 32 bits, above zero."""
    return value is not None and 0 < value < 2**31


def _process(track: tracks.Track, name: str) -> bytes:
    if track.is_device or not _is_number(track.process):
        return wire.field(2, name)
    return wire.field(3, wire.field(1, track.process or 0) + wire.field(6, name))


def _thread(track: tracks.Track, name: str) -> bytes:
    is_plain = track.is_device or track.lane or track.rank
    if is_plain or not _is_number(track.process) or not _is_number(track.thread):
        return wire.field(2, name)
    numbers = wire.field(1, track.process or 0) + wire.field(2, track.thread or 0)
    return wire.field(4, numbers + wire.field(5, name))


def _flows(table: pl.DataFrame) -> tuple[np.ndarray, wire.Column]:
    """The flow that ends at each event (0: none), and the fields of those that begin at each."""
    pairs = tracks.launches(table).sort("call", "row")
    ends_at = np.zeros(len(table), np.int64)
    rows = pairs["row"].to_numpy().astype(np.int64)
    ends_at[rows] = rows
    counts = np.bincount(pairs["call"].to_numpy(), minlength=len(table))
    fields = wire.fixed(wire.tag(47, wire.FIXED64), rows)
    return ends_at, wire.from_parts(np.frombuffer(wire.content(fields), np.uint8), 10 * counts)


def _begins(
    table: pl.DataFrame,
    rows: np.ndarray,
    drawn: tracks.Layout,
    lane: np.ndarray,
    interned: dict[str, _Interned],
    flows: tuple[np.ndarray, wire.Column],
    is_instant: np.ndarray,
) -> wire.Column:
    """The packets that begin slices, with every column of the event."""
    events = table[rows]
    parts = [
        wire.picked([_BEGIN, _INSTANT], is_instant[rows].astype(np.int64)),
        wire.numbers(wire.tag(11, wire.VARINT), _uuid(lane[rows])),
    ]
    for number, name in ((3, "category"), (10, "name")):
        column = interned[name]
        parts.append(
            wire.numbers(wire.tag(number, wire.VARINT), column.codes[rows] + 1, column.known[rows])
        )
    parts += _annotations(events, rows, drawn, interned)
    ends_at, begins_at = flows
    parts.append(wire.fixed(wire.tag(48, wire.FIXED64), ends_at[rows], ends_at[rows] > 0))
    parts.append(wire.taken(begins_at, rows))
    event = wire.framed(wire.tag(11, wire.LENGTH), wire.join(*parts))
    time = wire.numbers(wire.tag(8, wire.VARINT), drawn.start[rows])
    return wire.join(time, event, _SEQUENCE + _NEEDS_STATE)


def _annotations(
    events: pl.DataFrame, rows: np.ndarray, drawn: tracks.Layout, interned: dict[str, _Interned]
) -> list[wire.Column]:
    parts = []
    first = 1
    for name in TEXTS:
        column = interned[name]
        parts.append(
            wire.numbers(
                _opening(name, wire.tag(17, wire.VARINT)),
                column.codes[rows] + first,
                column.known[rows],
                length_at=1,
            )
        )
        first += len(column.texts)
    for name in NUMBERS:
        values = events[name]
        known = values.is_not_null().to_numpy()
        if name == "start_ns":
            # The packet has it, unless it is before zero.
            known = known & (values.fill_null(0).to_numpy() != drawn.start[rows])
        if known.any():
            numbers = values.fill_null(0).to_numpy().astype(np.int64)
            opening = _opening(name, wire.tag(4, wire.VARINT))
            parts.append(wire.numbers(opening, numbers, known, length_at=1))
    known = events["flops"].is_not_null().to_numpy()
    if known.any():
        opening = _opening("flops", wire.tag(5, wire.FIXED64), 8)
        parts.append(wire.fixed(opening, events["flops"].fill_null(0.0).to_numpy(), known))
    parts += [_array(events[name]) for name in ARRAYS if events[name].null_count() < len(events)]
    args = events["args"].to_arrow().cast("large_binary")
    text = wire.framed(wire.tag(6, wire.LENGTH), args)
    index = wire.field(1, ANNOTATIONS.index("args") + 1)
    known = events["args"].is_not_null().to_numpy()
    parts.append(wire.framed(wire.tag(4, wire.LENGTH), wire.masked(wire.join(index, text), known)))
    return parts


def _opening(name: str, key: bytes, size: int = 0) -> bytes:
    """The beginning of an annotation whose length is the second byte; its value follows."""
    inside = wire.field(1, ANNOTATIONS.index(name) + 1) + key
    return wire.tag(4, wire.LENGTH) + bytes([len(inside) + size]) + inside


def _array(column: pl.Series) -> wire.Column:
    """Annotations of three numbers."""
    known = column.is_not_null().to_numpy()
    parts: list[wire.Column | bytes] = [wire.field(1, ANNOTATIONS.index(column.name) + 1)]
    key = wire.tag(12, wire.LENGTH) + b"\0" + wire.tag(4, wire.VARINT)
    for axis in range(3):
        values = column.arr.get(axis).fill_null(0).to_numpy().astype(np.int64)
        parts.append(wire.numbers(key, values, length_at=1))
    return wire.framed(wire.tag(4, wire.LENGTH), wire.masked(wire.join(*parts), known))


def _ends(rows: np.ndarray, drawn: tracks.Layout, lane: np.ndarray) -> wire.Column:
    """The packets that end slices."""
    uuid = wire.numbers(wire.tag(11, wire.VARINT), _uuid(lane[rows]))
    event = wire.framed(wire.tag(11, wire.LENGTH), wire.join(_END, uuid))
    time = wire.numbers(wire.tag(8, wire.VARINT), drawn.end[rows])
    return wire.join(time, event, _SEQUENCE + _NEEDS_STATE)
