"""The columns of an event table that dependencies need, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.array_types import Flags, Ints
from assay.lazy_import import np, pl
from assay.observe import schema
from assay.observe.exporters import tracks

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOST_KINDS = ("host", "api", "sync")
"""Kinds of event that occupy a thread; ranges, overhead and instants lie beside the others."""

LATEST_NS = 2**61
LONGEST_NS = 2**55
"""More than a year: a damaged trace may hold anything."""


@dataclass(frozen=True, slots=True)
class Columns:
    """One entry a row of the event table; -1 stands for null."""

    start: Ints
    end: Ints
    is_device: Flags
    is_sync: Flags
    is_copy: Flags
    call: Ints
    """The row of the API call that started a device event."""
    pid: Ints
    step: Ints
    correlation: Ints
    graph: Ints
    stream: Ints
    """A number for each stream of each device, over ranks."""
    thread: Ints
    """A number for each thread of each process, over ranks."""
    name: Ints
    """Index into `names`."""
    names: tuple[str, ...]

    @classmethod
    def of(cls, events: pl.DataFrame) -> Columns:
        """Read the columns of an event table."""
        kind = events["kind"].cast(pl.String)
        is_device = kind.is_in(list(schema.DEVICE_KINDS)).to_numpy()
        start = starts(events)
        call = np.full(events.height, -1, np.int64)
        pairs = tracks.launches(events)
        call[pairs["row"].to_numpy()] = pairs["call"].to_numpy()
        names, code = np.unique(
            events["name"].to_physical().cast(pl.Int64).fill_null(-1).to_numpy(),
            return_inverse=True,
        )
        first = np.zeros(len(names), np.int64)
        first[code] = np.arange(len(code))
        texts = events["name"].cast(pl.String).fill_null("").gather(first).to_list()
        return cls(
            start,
            start + _integers(events, "dur_ns").clip(0, LONGEST_NS),
            is_device,
            (kind == "sync").to_numpy(),
            (kind == "memcpy").to_numpy(),
            call,
            _integers(events, "pid"),
            _integers(events, "step"),
            _integers(events, "correlation"),
            _integers(events, "graph"),
            _numbered(events, ["rank", "device", "stream"], is_device),
            _numbered(events, ["rank", "pid", "tid"], kind.is_in(list(HOST_KINDS)).to_numpy()),
            code.astype(np.int64),
            tuple(texts),
        )


def starts(events: pl.DataFrame) -> Ints:
    """Starts that sums of durations do not carry beyond 64 bits."""
    return _integers(events, "start_ns").clip(0, LATEST_NS)


def _integers(events: pl.DataFrame, name: str) -> Ints:
    values: Ints = events[name].cast(pl.Int64).fill_null(-1).to_numpy()
    return values


def _numbered(events: pl.DataFrame, keys: list[str], where: NDArray[Any]) -> Ints:
    """A number for each distinct combination of keys; -1 outside `where`."""
    number = np.zeros(events.height, np.int64)
    for key in keys:
        values, inverse = np.unique(_integers(events, key), return_inverse=True)
        number = number * len(values) + inverse
    return np.where(where, number, -1)
