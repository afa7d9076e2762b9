"""Limit-order events as columns, and a generator of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from assay._native import generate_order_events
from assay.errors import InputError
from assay.workloads.contract import Arrays, HostArray

ADD, CANCEL, REPLACE, MARKET, REDUCE = range(5)
"""Codes of kinds: see `crates/assay-order-book/src/event.rs` for what each does."""
BUY, SELL = range(2)

NO_BID: Final = -(2**31)
NO_ASK: Final = 2**31 - 1
"""Prices where a side is empty."""

DTYPES: Final[Mapping[str, npt.DTypeLike]] = {
    "kind": np.uint8,
    "side": np.uint8,
    "instrument": np.uint16,
    "order": np.uint64,
    "price": np.int32,
    "quantity": np.uint32,
}
"""Columns of events in order, and their types."""
_COLUMNS: Final = attrgetter(*DTYPES)


@dataclass(frozen=True, slots=True)
class Events:
    """Events in order of time, a column each."""

    kind: HostArray
    side: HostArray
    instrument: HostArray
    order: HostArray
    """ids, each instrument's its own"""
    price: HostArray
    """in ticks"""
    quantity: HostArray

    def __post_init__(self) -> None:
        """Refuse columns of other types and lengths."""
        for name, dtype in DTYPES.items():
            column = getattr(self, name)
            expected = np.dtype(dtype)
            if not isinstance(column, np.ndarray) or column.dtype != expected or column.ndim != 1:
                got = type(column).__name__
                if isinstance(column, np.ndarray):
                    got = f"{column.dtype} of shape {column.shape}"
                raise InputError(
                    f"column {name}: expected one dimension of {expected}, got {got}",
                    "Events.of converts columns, and refuses numbers that do not fit",
                )
            if len(column) != len(self.kind):
                raise InputError(
                    f"column {name}: expected {len(self.kind)} events, got {len(column)}"
                )

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, rows: slice) -> Events:
        return Events(*(column[rows] for column in self.columns))

    @property
    def columns(self) -> tuple[HostArray, ...]:
        """The columns in order."""
        columns: tuple[HostArray, ...] = _COLUMNS(self)
        return columns

    @property
    def arrays(self) -> Arrays:
        """The columns by name."""
        return dict(zip(DTYPES, self.columns, strict=True))

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Events:
        """Columns of any integers, by name; what does not fit its type is refused."""
        columns = []
        for name, dtype in DTYPES.items():
            if name not in arrays:
                raise InputError(f"events: expected a column {name}, got {', '.join(arrays)}")
            try:
                given = np.asarray(arrays[name])
            except ValueError:
                raise InputError(
                    f"column {name}: expected integers, got rows of several lengths"
                ) from None
            limits = np.iinfo(np.dtype(dtype))
            if given.size and given.dtype.kind not in "iu":
                raise InputError(f"column {name}: expected integers, got {given.dtype}")
            outside = [int(value) for value in (given.min(), given.max())] if given.size else []
            for value in outside:
                if not limits.min <= value <= limits.max:
                    raise InputError(
                        f"column {name}: expected {limits.min} to {limits.max}, got {value}"
                    )
            columns.append(np.ascontiguousarray(given, dtype=dtype))
        return cls(*columns)


def generate(seed: int, count: int, *, instruments: int = 8, resting: int = 2_000) -> Events:
    """Events of a random market, the same for a seed on every machine.

    About `resting` orders of an instrument rest once its book has filled, and the first
    instruments have more events than the last ones.
    """
    limits = {
        "seed": (seed, 0, 2**64 - 1),
        "count": (count, 0, 2**32 - 1),
        "instruments": (instruments, 1, 2**16 - 1),
        "resting": (resting, 2, 2**31 - 1),
    }
    for name, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise InputError(f"{name}: expected {least} to {most}, got {value}")
    events = Events(*(np.empty(count, dtype) for dtype in DTYPES.values()))
    generate_order_events(events.columns, seed, instruments, resting)
    return events
