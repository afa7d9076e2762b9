"""Perfetto traces as `exporters/perfetto.py` writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.lazy_import import np, pl
from assay.observe import records, schema
from assay.observe.exporters.perfetto import ARRAYS, NUMBERS, PACKET_KEY, TEXTS
from assay.observe.importers import frames
from assay.observe.importers.columns import arrays, scattered
from assay.observe.trace import Trace
from assay.observe.wire.decoding import Fields, delimited, split, texts
from assay.observe.wire.encoding import FIXED64, LENGTH, VARINT

CHUNK: Final = 200_000
"""Packets that are decoded at a time: bounds the memory."""

_BEGIN, _INSTANT = 1, 3


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a packet begins here: its key and length, and another one after it."""
    if not head.startswith(PACKET_KEY) or len(head) < 3:
        return False
    if head[1] >= 0x80:
        # A packet of more than 127 bytes, as the first one is: ASCII has no such byte.
        return True
    after = 2 + head[1]
    return after == len(head) or head[after : after + 1] == PACKET_KEY


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from a Perfetto trace that assay wrote."""
    data = path.read_bytes()
    where = str(path)
    starts, ends = delimited(data, where, PACKET_KEY[0])
    buffer = np.frombuffer(data, np.uint8)
    if not len(starts):
        raise InputError(f"{where}: expected packets of a Perfetto trace, got none")
    names = _interned(buffer, split(buffer, starts[:1], ends[:1], where), where)
    if 0 in names[3] or "row" not in names[3].values():
        raise InputError(
            f"{where}: expected a Perfetto trace that assay wrote, got one of another tool",
            "import the file that the tool recorded, such as a Kineto or Nsight Systems file",
        )
    tables = []
    for start in range(1, len(starts), CHUNK):
        chosen = slice(start, start + CHUNK)
        packets = split(buffer, starts[chosen], ends[chosen], where)
        tables.append(_events(buffer, packets, names, where))
        if progress:
            progress(f"{min(start + CHUNK, len(starts)):,} of {len(starts):,} packets read")
    table = pl.concat(tables).sort("row")
    if (
        table["row"].null_count()
        or not (table["row"] == pl.int_range(len(table), eager=True)).all()
    ):
        raise InputError(
            f"{where}: expected each event once, got some that are missing or there twice"
        )
    header, steps, events = records.read_head(table, where)
    return Trace(header, frames.checked(schema.complete(events), where), steps)


def _interned(buffer: np.ndarray, packet: Fields, where: str) -> dict[int, dict[int, str]]:
    """Texts by id, of categories (1), names (2), names (3) and values (29) of annotations."""
    outer = packet.select(12, LENGTH)
    inner = split(buffer, outer.start, outer.end(), where)
    interned: dict[int, dict[int, str]] = {}
    for number in (1, 2, 3, 29):
        entries = inner.select(number, LENGTH)
        fields = split(buffer, entries.start, entries.end(), where)
        ids = fields.select(1, VARINT)
        values = fields.select(2, LENGTH)
        if not np.array_equal(ids.message, values.message):
            raise InputError(f"{where}: expected an id and a text in interned data")
        interned[number] = dict(zip(ids.value.tolist(), texts(buffer, values, where), strict=True))
    return interned


def _events(
    buffer: np.ndarray, packets: Fields, names: dict[int, dict[int, str]], where: str
) -> pl.DataFrame:
    """The events that packets begin; those that end slices say nothing new."""
    bodies = packets.select(11, LENGTH)
    fields = split(buffer, bodies.start, bodies.end(), where)
    kinds = fields.select(9, VARINT)
    begins = kinds.message[np.isin(kinds.value, (_BEGIN, _INSTANT))]
    count = len(begins)
    # The place of each body among those that begin something, or -1.
    place = np.full(len(bodies.message), -1)
    place[begins] = np.arange(count)
    columns = {
        "category": _text(fields.select(3, VARINT), place, count, names[1], where),
        "name": _text(fields.select(10, VARINT), place, count, names[2], where),
    }
    annotations = fields.select(4, LENGTH)
    inner = split(buffer, annotations.start, annotations.end(), where)
    label = np.zeros(len(annotations.message), np.int64)
    ids = inner.select(1, VARINT)
    label[ids.message] = ids.value.astype(np.int64)
    owner = place[annotations.message]
    by_name = {text: number for number, text in names[3].items()}

    selected: dict[tuple[int, int], Fields] = {}

    def values(name: str, number: int, kind: int) -> Fields:
        """The value of an annotation, its message the place of its event."""
        if (number, kind) not in selected:
            fields = inner.select(number, kind)
            # By annotation, so that the fields of each are together.
            fields = fields.at(np.argsort(label[fields.message], kind="stable"))
            selected[number, kind] = fields
        fields = selected[number, kind]
        labels = label[fields.message]
        begin, end = np.searchsorted(labels, [by_name.get(name, -1), by_name.get(name, -1) + 1])
        fields = Fields(*(column[begin:end] for column in fields))
        return fields._replace(message=owner[fields.message])

    for name in TEXTS:
        interned = values(name, 17, VARINT)
        columns[name] = _text(interned, np.arange(count), count, names[29], where)
    for name in NUMBERS:
        columns[name] = _numbers(values(name, 4, VARINT), count, where)
    flops = values("flops", 5, FIXED64)
    columns["flops"] = _numbers(flops, count, where).reinterpret(dtype=pl.Float64)
    for name in ARRAYS:
        parts = values(name, 12, LENGTH)
        items = split(buffer, parts.start, parts.end(), where).select(4, VARINT)
        columns[name] = arrays(parts.message[items.message], items.value, count, name, where)
    args = values("args", 6, LENGTH)
    columns["args"] = scattered(args.message, texts(buffer, args, where), count, pl.String, where)
    clock = packets.select(8, VARINT)
    times = np.zeros(int(packets.message.max(initial=-1)) + 1, np.int64)
    times[clock.message] = clock.value.view(np.int64)
    timestamp = pl.Series(times[bodies.message][begins])
    # The header is an event without times.
    known = columns["dur_ns"].is_not_null()
    frame = pl.DataFrame(columns).with_columns(
        pl.coalesce("start_ns", pl.when(known).then(timestamp)).alias("start_ns")
    )
    try:
        return frame.with_columns(
            pl.col(name).cast(kind)
            for name, kind in schema.event_columns().items()
            if name not in ARRAYS
        )
    except pl.exceptions.PolarsError as error:
        message = str(error).partition("\n")[0][:200]
        raise InputError(f"{where}: expected an event, got: {message}") from None


def _numbers(fields: Fields, count: int, where: str) -> pl.Series:
    return scattered(fields.message, fields.value.view(np.int64), count, pl.Int64, where)


def _text(
    fields: Fields, place: np.ndarray, count: int, names: dict[int, str], where: str
) -> pl.Series:
    ids = fields.value.tolist()
    try:
        values = [names[identifier] for identifier in ids]
    except KeyError as error:
        raise InputError(
            f"{where}: expected an interned text, got the unknown id {error}"
        ) from None
    return scattered(place[fields.message], values, count, pl.String, where)
