"""Reads the wire format of Protocol Buffers for many messages at a time.

All messages are read in step: their first fields, then their second ones. The work is done in
NumPy, and the bounds of every field are checked before it is used.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.errors import InputError
from assay.lazy_import import np
from assay.observe.wire.encoding import FIXED32, FIXED64, LENGTH, VARINT


class Fields(NamedTuple):
    """The fields of some messages, one a row; rows of one message are in the order of the file."""

    message: np.ndarray
    """Which message, counted from zero."""
    number: np.ndarray
    wire: np.ndarray
    value: np.ndarray
    """The number of a varint or fixed field, as 64 bits; of another its length."""
    start: np.ndarray
    """Where the content of a length-delimited field begins in the buffer."""

    def select(self, number: int, wire: int) -> Fields:
        """The fields of one number and wire type."""
        return self.at(np.flatnonzero((self.number == number) & (self.wire == wire)))

    def at(self, places: np.ndarray) -> Fields:
        """The fields at these places."""
        return Fields(*(column[places] for column in self))

    def end(self) -> np.ndarray:
        """Where the content of a length-delimited field ends."""
        return self.start + self.value.astype(np.int64)


def split(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray, where: str) -> Fields:
    """The fields of the messages at these places of a buffer of bytes."""
    position = starts.astype(np.int64)
    active = np.flatnonzero(position < ends)
    position, ends = position[active], ends[active].astype(np.int64)
    rounds: list[tuple[np.ndarray, ...]] = []
    while len(active):
        key, position = varints(buffer, position, ends, where)
        number, wire = (key >> np.uint64(3)).astype(np.int64), (key & np.uint64(7)).astype(np.uint8)
        known = (wire == VARINT) | (wire == FIXED64) | (wire == LENGTH) | (wire == FIXED32)
        if not known.all() or (number == 0).any() or (number > (1 << 29) - 1).any():
            raise InputError(f"{where}: expected a field of Protocol Buffers, got none")
        value = np.zeros(len(active), np.uint64)
        numeric = (wire == VARINT) | (wire == LENGTH)
        value[numeric], position[numeric] = varints(buffer, position[numeric], ends[numeric], where)
        begin = position.copy()
        room = (ends - position).astype(np.uint64)
        if (value[wire == LENGTH] > room[wire == LENGTH]).any():
            raise InputError(f"{where}: expected a field inside its message, got one cut short")
        position += np.where(wire == LENGTH, value, np.uint64(0)).astype(np.int64)
        for kind, size in ((FIXED64, 8), (FIXED32, 4)):
            chosen = wire == kind
            if (room[chosen] < size).any():
                raise InputError(f"{where}: expected a field inside its message, got one cut short")
            value[chosen] = _fixed(buffer, position[chosen], size)
            position[chosen] += size
        rounds.append((active, number, wire, value, begin))
        rest = position < ends
        active, position, ends = active[rest], position[rest], ends[rest]
    if not rounds:
        empty = np.empty(0, np.int64)
        return Fields(empty, empty, empty, empty.astype(np.uint64), empty)
    columns = [np.concatenate([fields[index] for fields in rounds]) for index in range(5)]
    order = np.argsort(columns[0], kind="stable")
    return Fields(*(column[order] for column in columns))


def varints(
    buffer: np.ndarray, position: np.ndarray, ends: np.ndarray, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """The varint at each position, and the position after it."""
    value = np.zeros(len(position), np.uint64)
    position = position.copy()
    going = np.arange(len(position))
    for place in range(10):
        if not len(going):
            return value, position
        here = position[going]
        if (here >= ends[going]).any():
            raise InputError(f"{where}: expected a number, got the end of a message")
        byte = buffer[here]
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        position[going] += 1
        going = going[byte >= 0x80]
    if len(going):
        raise InputError(f"{where}: expected a number of at most 64 bits, got a longer one")
    return value, position


def _fixed(buffer: np.ndarray, position: np.ndarray, size: int) -> np.ndarray:
    value = np.zeros(len(position), np.uint64)
    for place in range(size):
        value |= buffer[position + place].astype(np.uint64) << np.uint64(8 * place)
    return value


def texts(buffer: np.ndarray, fields: Fields, where: str) -> list[str]:
    """The text of each length-delimited field."""
    data = buffer.data
    try:
        return [
            str(data[start:end], "utf-8")
            for start, end in zip(fields.start.tolist(), fields.end().tolist(), strict=True)
        ]
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: expected text in UTF-8, got: {error}") from None


def delimited(data: bytes, where: str, key: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Where the messages of a stream begin and end.

    Each has its length before it, and the byte `key` before that if one is given: a repeated field
    of an outermost message.
    """
    starts: list[int] = []
    ends: list[int] = []
    position, total = 0, len(data)
    while position < total:
        if key is not None:
            if data[position] != key:
                raise InputError(f"{where}: expected a message at byte {position:,}, got none")
            position += 1
        size = shift = 0
        while True:
            if position >= total or shift > 63:
                raise InputError(f"{where}: expected a length at byte {position:,}, got none")
            byte = data[position]
            position += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if position + size > total:
            raise InputError(
                f"{where}: expected a message of {size:,} bytes at byte {position:,}, got the end "
                "of the file",
                "the file was cut short",
            )
        starts.append(position)
        position += size
        ends.append(position)
    return np.array(starts, np.int64), np.array(ends, np.int64)
