"""Chakra execution traces: those that assay wrote, without a loss, and those of others."""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.lazy_import import np, pl
from assay.observe import json_rows, records, schema
from assay.observe.exporters.chakra import ARRAYS, DOUBLE, INT32_LIST, INT64, STRING, TEXTS
from assay.observe.header import TraceHeader
from assay.observe.importers import frames
from assay.observe.importers.columns import arrays, scattered
from assay.observe.trace import Trace
from assay.observe.wire.decoding import Fields, delimited, split, texts, varints
from assay.observe.wire.encoding import FIXED32, FIXED64, LENGTH, VARINT

READS: Final = "Chakra"
CHUNK: Final = 100_000
NODE_TYPES: Final = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",
    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE", "STORAGE_NODE", "BATCH_NODE",
    "CHECKPOINT_NODE",
)  # fmt: skip
_MAX_MICROSECONDS: Final = 2**63 // 1000 - 1
_FORMATS: Final = {
    3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q",
}  # fmt: skip
"""Fields of fixed size of an attribute, as `struct` reads them."""


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a length stands at the start, and GlobalMetadata with a version like 1.0.0 after it."""
    return bool(re.match(rb"(?:[\x80-\xff]{0,4}[\x00-\x7f])\x0a[\x01-\x20]\d+\.\d+", head))


def read(path: Path, *, progress: Callable[[str], None] | None = None) -> Trace:
    """Read a trace from a Chakra execution trace."""
    where = str(path)
    data = path.read_bytes()
    starts, ends = delimited(data, where)
    if not len(starts):
        raise InputError(f"{where}: expected GlobalMetadata and nodes of Chakra, got nothing")
    buffer = np.frombuffer(data, np.uint8)
    first = split(buffer, starts[:1], ends[:1], where)
    version = texts(buffer, first.select(1, LENGTH), where)
    attributes = _attributes(buffer, first.select(2, LENGTH), where)
    metadata = {name: _plain(value) for _, name, value in attributes}
    own = metadata.pop("assay_trace", None)
    tables, repairs = [], Counter[str]()
    for start in range(1, len(starts), CHUNK):
        chosen = slice(start, start + CHUNK)
        nodes = split(buffer, starts[chosen], ends[chosen], where)
        count = len(starts[chosen])
        make = _own_events if own is not None else _foreign_events
        tables.append(make(buffer, nodes, count, where, repairs))
        if progress:
            progress(f"{start - 1 + count:,} of {len(starts) - 1:,} nodes read")
    empty = pl.DataFrame(schema=schema.event_columns())
    if own is not None:
        return _own_trace(own, pl.concat(tables) if tables else empty, where)
    events = pl.concat(tables) if tables else empty
    header = TraceHeader(
        source="chakra",
        versions={"chakra": version[0]} if version else {},
        repairs=dict(repairs),
        degradations=["times are whole microseconds: the file has no nanoseconds"],
        metadata=metadata,
    )
    return Trace(header, frames.checked(schema.complete(events), where))


def _own_trace(first: Any, table: pl.DataFrame, where: str) -> Trace:
    try:
        data = json.loads(str(first))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected a JSON object, got: {str(error)[:200]}") from None
    header, (_, count) = records.read_first(data, where)
    if len(table) != count:
        raise InputError(
            f"{where}: expected {count:,} events, got {len(table):,}", "the file was cut short"
        )
    steps = json_rows.read_steps(data.get("step_rows"), where)
    return Trace(header, frames.checked(schema.complete(table), where), steps)


def _own_events(
    buffer: np.ndarray, nodes: Fields, count: int, where: str, repairs: Counter[str]
) -> pl.DataFrame:
    """The events of nodes that assay wrote: every column is an attribute."""
    named = nodes.select(2, LENGTH)
    columns = {
        "name": scattered(named.message, texts(buffer, named, where), count, pl.String, where)
    }
    attributes = nodes.select(10, LENGTH)
    inner = split(buffer, attributes.start, attributes.end(), where)
    labels = inner.select(1, LENGTH)
    words = np.zeros((len(attributes.message), 3), np.uint64)
    words[labels.message] = _words(buffer, labels)
    selected: dict[tuple[int, int], Fields] = {}
    for name in schema.event_columns():
        if name == "name":
            continue
        text = name in ("args", *TEXTS)
        number = STRING if text else DOUBLE if name == "flops" else INT64
        number = INT32_LIST if name in ARRAYS else number
        wire = FIXED64 if number == DOUBLE else VARINT if number == INT64 else LENGTH
        if (number, wire) not in selected:
            selected[number, wire] = inner.select(number, wire)
        values = selected[number, wire]
        mine = (words[values.message] == _word(name)).all(axis=1)
        values = values.at(np.flatnonzero(mine))
        owner = attributes.message[values.message]
        if text:
            columns[name] = scattered(owner, texts(buffer, values, where), count, pl.String, where)
        elif name in ARRAYS:
            columns[name] = _array(buffer, values, owner, count, name, where)
        else:
            numbers = scattered(owner, values.value.view(np.int64), count, pl.Int64, where)
            columns[name] = numbers.reinterpret(dtype=pl.Float64) if name == "flops" else numbers
    try:
        return schema.complete(pl.DataFrame(columns))
    except pl.exceptions.PolarsError as error:
        message = str(error).partition("\n")[0][:200]
        raise InputError(f"{where}: expected the columns of an event, got: {message}") from None


def _words(buffer: np.ndarray, fields: Fields) -> np.ndarray:
    """Length and first 16 bytes of each text as numbers: no column has a longer name."""
    words = np.zeros((len(fields.message), 3), np.uint64)
    words[:, 0] = fields.value
    for place in range(16):
        inside = np.flatnonzero(fields.value > place)
        byte = buffer[fields.start[inside] + place].astype(np.uint64)
        words[inside, 1 + place // 8] |= byte << np.uint64(8 * (place % 8))
    return words


def _word(name: str) -> np.ndarray:
    data = name.encode()
    return np.array([len(data), *np.frombuffer(data.ljust(16, b"\0"), np.uint64)], np.uint64)


def _array(
    buffer: np.ndarray, values: Fields, owner: np.ndarray, count: int, name: str, where: str
) -> pl.Series:
    """Three numbers of 32 bits, packed, for each event that has them."""
    packed = split(buffer, values.start, values.end(), where).select(1, LENGTH)
    numbers, owners, position, ends = [], [], packed.start.copy(), packed.end()
    for _ in range(3):
        number, position = varints(buffer, position, ends, where)
        numbers.append(number)
        owners.append(owner[packed.message])
    if (position != ends).any():
        raise InputError(f"{where}: expected three numbers as {name} of an event, got more")
    return arrays(np.concatenate(owners), np.concatenate(numbers), count, name, where)


def _foreign_events(
    buffer: np.ndarray, nodes: Fields, count: int, where: str, repairs: Counter[str]
) -> pl.DataFrame:
    """Events of nodes of another tool; what has no column is in `args`."""
    args: list[dict[str, Any]] = [{} for _ in range(count)]
    for number, label in ((1, "id"), (6, "start"), (7, "duration"), (3, "type")):
        numbers = nodes.select(number, VARINT)
        for node, value in zip(numbers.message.tolist(), numbers.value.tolist(), strict=True):
            args[node][label] = value
    for number, label in ((4, "ctrl_deps"), (5, "data_deps")):
        for node, value in _repeated(buffer, nodes, number, where):
            args[node].setdefault(label, []).append(value)
    for number, label in ((8, "inputs"), (9, "outputs")):
        for node, value in _io(buffer, nodes.select(number, LENGTH), where):
            args[node][label] = value
    names = [""] * count
    named = nodes.select(2, LENGTH)
    for node, name in zip(named.message.tolist(), texts(buffer, named, where), strict=True):
        names[node] = name
    attributes: list[dict[str, Any]] = [{} for _ in range(count)]
    for node, name, value in _attributes(buffer, nodes.select(10, LENGTH), where):
        if name in attributes[node]:
            repairs["attribute of a node there twice, the last one kept"] += 1
        attributes[node][name] = value
    rows = [
        _event(names[node], args[node], attributes[node], repairs, where) for node in range(count)
    ]
    return pl.DataFrame(rows, schema=schema.event_columns(), orient="row")


def _event(
    name: str, node: dict[str, Any], values: dict[str, Any], repairs: Counter[str], where: str
) -> dict[str, Any]:
    kind = node.get("type", 0)
    label = NODE_TYPES[kind] if kind < len(NODE_TYPES) else f"type {kind}"
    start, duration = node.pop("start", 0), node.pop("duration", 0)
    if start > _MAX_MICROSECONDS:
        raise InputError(f"{where}: expected a time of 64 bits in nanoseconds, got {start} us")
    if duration > _MAX_MICROSECONDS:
        # An unsigned number that large is a negative one.
        repairs[frames.NEGATIVE_DURATION] += 1
        duration = 0
    node["type"] = label
    row: dict[str, Any] = {
        "kind": _kind(label, name, values),
        "name": name,
        "category": label,
        "start_ns": start * 1000,
        "dur_ns": duration * 1000,
    }
    for attribute, column in (
        ("stream", "stream"), ("tid", "tid"), ("pid", "pid"), ("correlation", "correlation"),
        ("external_id", "external"), ("comm_size", "bytes"), ("rank", "rank"),
    ):  # fmt: skip
        value = values.get(attribute)
        limit = 2**31 if column == "rank" else 2**63
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            row[column] = values.pop(attribute)
    row["args"] = json.dumps(_plain({**node, "attr": values} if values else node))
    return row


def _kind(label: str, name: str, values: dict[str, Any]) -> str:
    if label == "METADATA_NODE":
        return "range"
    if values.get("is_cpu_op", not label.startswith("COMM")):
        return "host"
    matched = re.match("(?i)(memcpy|memset)", name)
    return matched[1].lower() if matched else "kernel"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list) else value


def _repeated(buffer: np.ndarray, nodes: Fields, number: int, where: str) -> list[tuple[int, int]]:
    """Numbers of a repeated field, packed or not, with their node."""
    alone = nodes.select(number, VARINT)
    pairs = list(zip(alone.message.tolist(), alone.value.tolist(), strict=True))
    packed = nodes.select(number, LENGTH)
    data = buffer.data
    for node, start, end in zip(
        packed.message.tolist(), packed.start.tolist(), packed.end().tolist(), strict=True
    ):
        pairs += [(node, value) for value in _varints(bytes(data[start:end]), where)]
    return pairs


def _varints(data: bytes, where: str) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value & 0xFFFF_FFFF_FFFF_FFFF)
            value = shift = 0
    if shift:
        raise InputError(f"{where}: expected a number, got the end of a message")
    return numbers


def _io(buffer: np.ndarray, messages: Fields, where: str) -> list[tuple[int, dict[str, str]]]:
    """Values, shapes and types of inputs or outputs."""
    inner = split(buffer, messages.start, messages.end(), where)
    rows: dict[int, dict[str, str]] = {}
    for number, label in ((1, "values"), (2, "shapes"), (3, "types")):
        fields = inner.select(number, LENGTH)
        for message, text in zip(
            fields.message.tolist(), texts(buffer, fields, where), strict=True
        ):
            rows.setdefault(int(messages.message[message]), {})[label] = text
    return list(rows.items())


def _attributes(buffer: np.ndarray, messages: Fields, where: str) -> list[tuple[int, str, Any]]:
    """Attributes as the message they belong to, name and value."""
    inner = split(buffer, messages.start, messages.end(), where)
    owner = messages.message.tolist()
    names = [""] * len(owner)
    fields = inner.select(1, LENGTH)
    for place, text in zip(fields.message.tolist(), texts(buffer, fields, where), strict=True):
        names[place] = text
    data = buffer.data
    rows = []
    for place, number, value, start in zip(
        inner.message.tolist(), inner.number.tolist(), inner.value.tolist(),
        inner.start.tolist(), strict=True,
    ):  # fmt: skip
        if number > 2:
            rows.append((owner[place], names[place], _value(data, number, value, start, where)))
    return rows


def _value(data: memoryview, number: int, value: int, start: int, where: str) -> Any:
    """The value of an attribute by the number of its field; lists have even numbers."""
    if number in (7, 9):
        return value - (1 << 64) if value >= 1 << 63 else value
    if number in (15, 17):
        return (value >> 1) ^ -(value & 1)
    if number in _FORMATS:
        form = _FORMATS[number]
        size = struct.calcsize(form)
        return struct.unpack(form, value.to_bytes(8, "little")[:size])[0]
    if number == 27:
        return bool(value)
    if number in (11, 13):
        return value
    content = bytes(data[start : start + value])
    if number == 29:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: expected text in UTF-8, got: {error}") from None
    return _list(content, number, where) if number % 2 == 0 and number <= 32 else content


def _list(content: bytes, number: int, where: str) -> list[Any]:
    """A list of values, each as an attribute with the number before has it."""
    kind = number - 1
    items: list[Any] = []
    for wire, value, start in _values(content, where):
        if wire != LENGTH or kind in (29, 31):
            items.append(_value(memoryview(content), kind, value, start, where))
        elif kind in _FORMATS:
            form = _FORMATS[kind]
            whole = value // struct.calcsize(form) * struct.calcsize(form)
            packed = content[start : start + whole]
            items += [number for (number,) in struct.iter_unpack(form, packed)]
        else:
            numbers = _varints(content[start : start + value], where)
            items += [_value(memoryview(b""), kind, number, 0, where) for number in numbers]
    return items


def _values(content: bytes, where: str) -> Iterator[tuple[int, int, int]]:
    """Wire type, number or length, and place of the values of a list: short, hence one by one."""
    position = 0
    while position < len(content):
        wire = content[position] & 7
        position += 1
        size = {FIXED64: 8, FIXED32: 4}.get(wire)
        if size is not None:
            value = int.from_bytes(content[position : position + size], "little")
        else:
            begin = position
            while position < len(content) and content[position] >= 0x80:
                position += 1
            position += 1
            value = (_varints(content[begin:position], where) or [0])[0]
            size = value if wire == LENGTH else 0
        if position + size > len(content) or wire not in (VARINT, FIXED64, LENGTH, FIXED32):
            raise InputError(f"{where}: expected a value of a list, got the end of it")
        yield wire, value, position
        position += size
